"""The one tree of errors. Every error names what is wrong, where, and the remedy."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Blame(StrEnum):
    """Whose fault it is, and so what to do: retry, tell the user, or crash loudly."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    OURS = "ours"


class SlipstreamError(Exception):
    """Root of all errors that Slipstream raises on purpose."""

    blame = Blame.PERMANENT
    title = "Something went wrong"

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message if not remedy else f"{message} {remedy}")
        self.message = message
        self.remedy = remedy


@dataclass(frozen=True)
class FieldProblem:
    """One field that is wrong: its dotted path, what is wrong with it,
    and what to write instead."""

    field: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.field}: {self.message}" if self.field else self.message
        return f"{text} {self.remedy}".strip()


class RecipeError(SlipstreamError):
    """The recipe cannot be raced as written. Carries one problem per field."""

    title = "The recipe cannot be raced as written"

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class NotFoundError(SlipstreamError):
    """The thing asked for does not exist (or the asker may not know that it does)."""

    title = "Not found"


class ConflictError(SlipstreamError):
    """The thing exists, but its state forbids what was asked."""

    title = "Not possible in this state"


class StoreError(SlipstreamError):
    """The database cannot be used: read-only, missing, locked, or made by a newer version."""

    title = "The database cannot be used"


class SettingsError(SlipstreamError):
    """A SLIPSTREAM_* setting has a value that cannot be used."""

    title = "A setting is wrong"


class LaunchError(SlipstreamError):
    """A lane's server did not come up, or is not the one that was asked for."""

    title = "The server did not start"

    def __init__(self, message: str, *, step: str = "starting", remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.step = step


class LoadError(SlipstreamError):
    """The load process failed; the heat it was driving does not count."""

    title = "The load process failed"
    blame = Blame.OURS
