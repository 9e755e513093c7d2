"""`slipstream …`: the door for people at a terminal. Parses, asks the rooms, prints; imports late.

Exit codes: 0 ok, 1 failed, 2 bad input, 130 cancelled.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from app.domain.errors import NotFoundError, RecipeError, SettingsError, SlipstreamError, StoreError

cli = typer.Typer(
    name="slipstream",
    help="Races an LLM server with speculative decoding against the same server without it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

BAD_INPUT = 2
_BAD_INPUTS = (RecipeError, SettingsError, StoreError, NotFoundError)


def _tell_version(asked: bool) -> None:
    if asked:
        from app import __version__

        print(f"slipstream {__version__}")
        raise typer.Exit


@cli.callback()
def slipstream(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_tell_version, is_eager=True),
    ] = False,
) -> None:
    """Races an LLM server with speculative decoding against the same server without it."""


@cli.command()
def up(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the dashboard; 0: any.")] = None,
    race: Annotated[str | None, typer.Option(help="Recipe or card to race at once.")] = None,
    exit_after_race: Annotated[
        bool, typer.Option("--exit-after-race", help="Stop when that race has ended.")
    ] = False,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Dashboard only; workers run elsewhere.")
    ] = False,
) -> None:
    """Start the dashboard and a worker; prints a one-use link that opens the browser session."""
    from app.config import load_settings
    from app.serving import serve

    given = {"host": host, "port": port}
    settings = load_settings(**{key: value for key, value in given.items() if value is not None})
    raise typer.Exit(
        serve(settings, race=race, exit_after_race=exit_after_race, with_worker=not no_worker)
    )


@cli.command()
def worker() -> None:
    """Start a worker alone; it races what the database's queue holds."""
    from workers.__main__ import run

    raise typer.Exit(run(is_child=False))


@cli.command()
def race(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or the name of a card.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder that gets result.json.", file_okay=False)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="No progress; print the result document.")
    ] = False,
    settings_: Annotated[
        list[str] | None, typer.Option("--set", help="Change the recipe: decode.seconds=2.")
    ] = None,
) -> None:
    """Race a recipe here and now, without the dashboard."""
    from app.config import load_settings
    from app.headless import race_here

    raise typer.Exit(race_here(load_settings(), recipe, settings_ or [], out, as_json=as_json))


@cli.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what is on this host: engines, GPU, ports, database, browser."""
    from app.config import load_settings
    from app.doctor import examine, show

    findings = examine(load_settings())
    show(findings, as_json=as_json)
    raise typer.Exit(0 if all(finding.is_fine for finding in findings) else 1)


@cli.command()
def token(
    link: Annotated[
        bool, typer.Option("--link", help="A one-use link that opens a browser session.")
    ] = False,
    label: Annotated[str, typer.Option(help="What the token is for.")] = "",
) -> None:
    """Make a bearer token for the API, or a one-use link for a browser. Shown once."""
    from app.config import load_settings
    from app.serving import mint_bearer, mint_link

    settings = load_settings()
    print(mint_link(settings) if link else mint_bearer(settings, label))


def main() -> None:
    """Entry of the `slipstream` command: every expected error is one clear message."""
    try:
        cli()
    except SlipstreamError as error:
        sys.stderr.write(f"{error.title}:\n{_plain(str(error))}\n")
        sys.exit(BAD_INPUT if isinstance(error, _BAD_INPUTS) else 1)


def _plain(text: str) -> str:
    """What a stranger's text may do to a terminal: nothing."""
    return "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)


if __name__ == "__main__":
    main()
