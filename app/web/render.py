"""Templates become pages here. Knows how to render, not what: the views fill in typed contexts."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from app.config import resource, version
from app.web import formats

THEME_SNIPPET = """
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* storage is off: the system's choice stands */ }
document.documentElement.classList.add("js");
"""
"""The only inline script: it runs before the first paint. security.py allows it by its hash."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """What every page has: its title, and which entry of the navigation it belongs to."""

    title: str
    section: str = ""


@dataclass(frozen=True, kw_only=True)
class ErrorPage(Page):
    """What went wrong, in words, with the cure."""

    status: int
    detail: str
    remedy: str


@cache
def environment() -> Environment:
    """The one Jinja environment: escapes everything, and refuses names that it does not know."""
    env = Environment(
        loader=FileSystemLoader(resource("templates"), encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(formats.FILTERS)
    env.globals.update(
        theme_snippet=Markup(THEME_SNIPPET),  # ours, and constant: nothing of a user is in it
        version=version(),
        plural=formats.plural,
        interval=formats.interval,
    )
    return env


def render(template: str, page: Page, **extra: Any) -> str:
    """The template filled with its context."""
    return environment().get_template(template).render(page=page, **extra)


def respond(template: str, page: Page, status: int = 200) -> HTMLResponse:
    """The page as a response."""
    return HTMLResponse(render(template, page), status_code=status)


def error_page(
    request: Request, status: int, title: str, detail: str, remedy: str = ""
) -> HTMLResponse:
    """A page that says what is wrong and what to do about it."""
    context = ErrorPage(title=title, status=status, detail=detail, remedy=remedy)
    return respond("pages/error.html", context, status)


def public_url(request: Request, path: str) -> str:
    """The address under which a reader elsewhere finds `path`."""
    settings = getattr(request.app.state, "settings", None)
    base = str(getattr(settings, "public_url", "") or request.base_url)
    return base.rstrip("/") + "/" + path.lstrip("/")
