"""Structured logs of all our processes, on stderr. Secrets never enter them."""

import logging
import sys

import structlog


def set_up_logs(level: str = "info", *, as_json: bool = False) -> None:
    """Text for people by default, JSON for machines on request."""
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    render: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if as_json else _pass_on,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )


def _pass_on(
    _logger: object, _method: str, event: structlog.types.EventDict
) -> structlog.types.EventDict:
    return event
