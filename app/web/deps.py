"""What handlers ask for: the database, the settings, the time, who asks. Knows no route."""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from fastapi import Depends, Request

from app.config import Settings
from app.store.db import Database
from app.web.live import Tail


class Visitor(StrEnum):
    """How the asker got in. OWNER: authentication is switched off."""

    STRANGER = "stranger"
    BEARER = "bearer"
    SESSION = "session"
    OWNER = "owner"

    @property
    def is_known(self) -> bool:
        """Whether private pages and figures may be shown."""
        return self is not Visitor.STRANGER


def utc_now() -> datetime:
    """The clock of a served application; tests put another into app.state.clock."""
    return datetime.now(UTC)


def get_db(request: Request) -> Database:
    """The one open database of this process."""
    found = request.app.state.database
    assert isinstance(found, Database)
    return found


def settings(request: Request) -> Settings:
    """The settings in force."""
    found = request.app.state.settings
    assert isinstance(found, Settings)
    return found


def tail(request: Request) -> Tail:
    """The one live tail of this process."""
    found = request.app.state.tail
    assert isinstance(found, Tail)
    return found


def now(request: Request) -> datetime:
    """This moment, in UTC."""
    clock: Callable[[], datetime] = request.app.state.clock
    return clock()


def visitor(request: Request) -> Visitor:
    """Who asks, as the guard found out."""
    return Visitor(request.scope.get("state", {}).get("visitor", Visitor.STRANGER))


Db = Annotated[Database, Depends(get_db)]
Conf = Annotated[Settings, Depends(settings)]
Live = Annotated[Tail, Depends(tail)]
Now = Annotated[datetime, Depends(now)]
Who = Annotated[Visitor, Depends(visitor)]
