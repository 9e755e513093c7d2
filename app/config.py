"""Settings from SLIPSTREAM_* variables, and where the files that travel with the product lie."""

import os
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.domain.errors import SettingsError

APP_DIR = Path(__file__).resolve().parent


def resource(name: str) -> Path:
    """Folder `name` (templates, static, migrations, recipes,
    published) in a clone or an installed wheel."""
    bundled = APP_DIR / "_bundled" / name
    return bundled if bundled.is_dir() else APP_DIR.parent / name


def is_clone() -> bool:
    """Whether this runs from a checkout rather than from an installed wheel."""
    return not (APP_DIR / "_bundled").is_dir()


def _default_data_dir() -> Path:
    if is_clone():
        return APP_DIR.parent / "var"
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "slipstream"


class Settings(BaseSettings):
    """Everything an operator can set. docs/operating.md lists the same, held equal by a test."""

    model_config = SettingsConfigDict(env_prefix="SLIPSTREAM_", extra="ignore", frozen=True)

    data_dir: Path = Field(
        default_factory=_default_data_dir, description="Folder of the database, logs and run files"
    )
    database_url: str = Field("", description="SQLAlchemy URL; empty: SQLite in data_dir")
    host: str = Field("127.0.0.1", description="Address the dashboard listens on")
    port: int = Field(8321, ge=0, le=65535, description="Port of the dashboard; 0 picks a free one")
    public_url: str = Field(
        "", description="URL that readers use, for links and embeds behind a proxy"
    )
    allowed_hosts: Annotated[list[str], NoDecode] = Field(
        default=["127.0.0.1", "localhost", "[::1]"],
        description="Host headers that are answered, comma-separated",
    )
    auth: bool = Field(True, description="Whether pages and API ask for a token")
    session_hours: float = Field(168, gt=0, description="How long a browser session lasts")
    link_minutes: float = Field(30, gt=0, description="How long a one-use link stays valid")
    lease_seconds: float = Field(
        15, ge=2, description="Silence after which a worker's run is given to another"
    )
    heartbeat_seconds: float = Field(2, gt=0, description="How often a worker renews its lease")
    poll_seconds: float = Field(0.5, gt=0, description="How often an idle worker looks for a run")
    live_poll_seconds: float = Field(
        0.1, gt=0, description="How often the live feed asks whether the database has changed"
    )
    viewer_queue: int = Field(
        256, ge=8, description="Events a slow viewer may lag behind before it is dropped"
    )
    max_viewers: int = Field(2000, ge=1, description="Live viewers that one process serves at most")
    vllm_bin: str = Field("", description="Path of the vllm command; empty: .engines, then PATH")
    log_level: str = Field("info", description="debug, info, warning or error")
    log_json: bool = Field(False, description="Log lines as JSON instead of text")

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return [host.strip() for host in value.split(",") if host.strip()]
        return value

    @property
    def database(self) -> str:
        """The SQLAlchemy URL in force."""
        return self.database_url or f"sqlite:///{self.data_dir / 'slipstream.db'}"

    @property
    def runs_dir(self) -> Path:
        """Where engines' logs and run files lie."""
        return self.data_dir / "runs"


def load_settings(**overrides: object) -> Settings:
    """Settings from the environment; SettingsError names the variable and what is wrong with it."""
    try:
        return Settings(**overrides)  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        lines = [
            f"SLIPSTREAM_{'_'.join(str(part) for part in item['loc']).upper()}: {item['msg']}"
            for item in error.errors()
        ]
        raise SettingsError("\n".join(lines), remedy="docs/operating.md lists them all.") from None


@cache
def version() -> str:
    """Version of this installation."""
    from app import __version__

    return __version__
