"""From a one-use link to a browser session, and out again."""

from datetime import timedelta

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from app.store import tokens
from app.web import problems
from app.web.deps import Conf, Db, Now
from app.web.limits import Attempts
from app.web.origins import local_path
from app.web.problems import Trouble
from app.web.security import (
    COOKIE,
    SECRET_CHARS,
    SECURE_COOKIE,
    client_of,
    is_secure,
    too_many,
)

router = APIRouter(include_in_schema=False)


@router.get("/login")
def login(
    request: Request, db: Db, conf: Conf, now: Now, link: str = "", next: str = "/"
) -> Response:
    """Redeem a one-use link: set the session cookie and go on to `next`, a path of this site."""
    attempts: Attempts = request.app.state.attempts
    wait_seconds = attempts.wait_seconds(client_of(request.scope))
    if wait_seconds:
        return problems.respond(request, too_many(wait_seconds))
    if not link:
        return problems.respond(request, _refusal("Slipstream has no passwords, only links."))
    lifetime = timedelta(hours=conf.session_hours)
    with db.write() as session:
        secret = tokens.redeem_link(session, link[:SECRET_CHARS], now=now, session_ttl=lifetime)
    if secret is None:
        attempts.failed(client_of(request.scope))
        return problems.respond(
            request, _refusal("This link was used before, is too old, or never was one.")
        )
    response = RedirectResponse(local_path(next), status_code=303)
    secure = is_secure(request.scope, conf)
    response.set_cookie(
        SECURE_COOKIE if secure else COOKIE,
        secret,
        max_age=int(lifetime.total_seconds()),
        path="/",
        secure=secure,
        httponly=True,
        samesite="lax",
    )
    return response


@router.post("/logout")
def logout(request: Request, db: Db, conf: Conf) -> Response:
    """Forget this browser's session."""
    name = SECURE_COOKIE if is_secure(request.scope, conf) else COOKIE
    secret = request.cookies.get(name)
    if secret:
        with db.write() as session:
            tokens.revoke(session, secret)
    response = RedirectResponse("/login", status_code=303)
    response.delete_cookie(name, path="/", secure=name == SECURE_COOKIE, httponly=True)
    return response


def _refusal(detail: str) -> Trouble:
    return Trouble(
        401,
        "unauthorized",
        "Sign in",
        detail,
        "Run `slipstream token --link` on the host and open the link that it prints.",
    )
