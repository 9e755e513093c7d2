"""Secrets by their sha256: bearer tokens, one-use links, browser sessions.
The clear text is shown once."""

import hashlib
import secrets
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import delete, update
from sqlmodel import Session, col

from app.store.tables import TokenRow


class TokenKind(StrEnum):
    """What a secret opens."""

    BEARER = "bearer"
    LINK = "link"
    SESSION = "session"


def mint(
    session: Session,
    kind: TokenKind,
    *,
    label: str = "",
    now: datetime,
    ttl: timedelta | None = None,
) -> str:
    """A new secret of 256 bits; sweeps out expired ones on the way."""
    session.execute(delete(TokenRow).where(col(TokenRow.expires_at) < now))
    secret = secrets.token_urlsafe(32)
    session.add(
        TokenRow(
            hash=_hash(secret),
            kind=kind.value,
            label=label,
            created_at=now,
            expires_at=now + ttl if ttl is not None else None,
        )
    )
    return secret


def redeem_link(
    session: Session, secret: str, *, now: datetime, session_ttl: timedelta
) -> str | None:
    """Turn a one-use link into a browser session; None when it is unknown, used or expired."""
    won = session.execute(
        update(TokenRow)
        .where(
            col(TokenRow.hash) == _hash(secret),
            col(TokenRow.kind) == TokenKind.LINK.value,
            col(TokenRow.used_at).is_(None),
            col(TokenRow.expires_at) > now,
        )
        .values(used_at=now)
        .returning(col(TokenRow.hash))
    ).first()
    if won is None:
        return None
    return mint(session, TokenKind.SESSION, label="browser", now=now, ttl=session_ttl)


def is_valid(session: Session, secret: str, kind: TokenKind, *, now: datetime) -> bool:
    """Whether this secret opens that door now. Compared by hash, so timing tells nothing."""
    row = session.get(TokenRow, _hash(secret))
    if row is None or row.kind != kind.value:
        return False
    return row.expires_at is None or row.expires_at > now


def revoke(session: Session, secret: str) -> bool:
    """Forget a secret; False when it was unknown."""
    gone = session.execute(
        delete(TokenRow).where(col(TokenRow.hash) == _hash(secret)).returning(col(TokenRow.hash))
    )
    return gone.first() is not None


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
