"""Keeps secrets out of log lines: the access log writes whole URLs, and links are secrets."""

import logging
import re

_SECRET = re.compile(r"((?:^|[?&])(?:link|token|key)=)[^&\s\"']*", re.IGNORECASE)
ACCESS_LOGGER = "uvicorn.access"


class HideSecrets(logging.Filter):
    """Replaces the values of ?link= and its like in every argument of a record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record in place; never drops one."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                hide(value) if isinstance(value, str) else value for value in record.args
            )
        if isinstance(record.msg, str):
            record.msg = hide(record.msg)
        return True


def hide(text: str) -> str:
    """`text` without the secrets in its URLs."""
    return _SECRET.sub(r"\1…", text)


def install() -> None:
    """Filter uvicorn's access log; doing it twice is as good as once."""
    logger = logging.getLogger(ACCESS_LOGGER)
    if not any(isinstance(each, HideSecrets) for each in logger.filters):
        logger.addFilter(HideSecrets())
