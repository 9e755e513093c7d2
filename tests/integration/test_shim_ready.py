"""Waiting for a real server: its steps, its early death, and the proof that it is ours."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from app.config import resource
from app.domain.engine_args import EngineKind
from app.domain.errors import LaunchError
from app.domain.recipe import Recipe, validate
from app.domain.states import LaunchStep
from tests.integration.shim_helpers import alive_in, fake_argv
from workers.engines import ENGINES
from workers.engines.base import LaunchPlan, Seat
from workers.launchers.base import Server
from workers.launchers.process import ProcessLauncher
from workers.ports import free_port, listens, port_is_free
from workers.ready import Ready, wait_ready

REPLAY = ENGINES[EngineKind.REPLAY]
PATIENCE_SECONDS = 20.0


def make_recipe(**args: object) -> Recipe:
    named = {name.replace("_", "-"): value for name, value in args.items()}
    args = {"race": "b300-sglang-gemma4-26b-a4b", "load-seconds": 0.3, **named}
    lanes: dict = {"baseline": {}, "mtp": {"k": 5}}
    return validate({"name": "r", "model": "m", "engine": "replay", "args": args, "lanes": lanes})


def make_plan(folder: Path, served_model: str = "ours", **args: object) -> LaunchPlan:
    published = resource("published")
    seat = Seat("127.0.0.1", free_port(), served_model, folder, published_dir=published)
    return REPLAY.plan(make_recipe(**args), "mtp", seat)


@asynccontextmanager
async def started(plan: LaunchPlan, folder: Path) -> AsyncIterator[Server]:
    server = await ProcessLauncher().start(plan.argv, plan.env, folder)
    try:
        yield server
    finally:
        await server.stop(2)


async def ready(
    plan: LaunchPlan, server: Server, seconds: float = PATIENCE_SECONDS
) -> tuple[Ready, list[LaunchStep]]:
    steps: list[LaunchStep] = []
    async with httpx.AsyncClient() as client:
        return await wait_ready(client, plan, server, REPLAY, seconds, steps.append), steps


async def test_a_server_of_ours_is_awaited_step_by_step_and_proven(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, max_model_len=9000)

    async with started(plan, tmp_path / "run") as server:
        found, steps = await ready(plan, server)

    assert (found.model, found.max_model_len) == ("ours", 9000)
    assert found.version is not None
    assert steps[0] is LaunchStep.STARTING
    assert LaunchStep.LOADING_WEIGHTS in steps
    assert steps[-2:] == [LaunchStep.PROVING, LaunchStep.READY]


async def test_a_stopped_server_leaves_its_port_free(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    port = int(plan.base_url.rpartition(":")[2])

    async with started(plan, tmp_path / "run") as server:
        await ready(plan, server)
        held = (port_is_free(port), listens(server.pids(), port))

    assert held == (False, True)
    assert port_is_free(port)


async def test_a_server_that_dies_at_start_fails_at_once_with_its_cause(tmp_path: Path) -> None:
    faults = '{"exit_start": {"exit_code": 4, "line": "FrobError: no frob"}}'
    plan = make_plan(tmp_path, faults=faults)

    async with started(plan, tmp_path / "run") as server:
        with pytest.raises(LaunchError, match=r"exit code 4.*FrobError: no frob") as caught:
            await ready(plan, server)

    assert caught.value.step == "loading weights"


async def test_a_server_that_never_gets_ready_is_given_up(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, faults='{"hang_start": {}}')

    async with started(plan, tmp_path / "run") as server:
        with pytest.raises(LaunchError, match="did not get ready in time"):
            await ready(plan, server, seconds=1.5)


async def test_somebody_elses_server_on_our_port_is_not_taken_for_ours(tmp_path: Path) -> None:
    """A launch died of a taken port while /health on it answered 200 (seen with vLLM)."""
    theirs = make_plan(tmp_path, served_model="theirs")
    ours = replace(theirs, argv=tuple(fake_argv("plain", tmp_path / "pids")), served_model="ours")

    async with started(theirs, tmp_path / "theirs") as other:
        await ready(theirs, other)
        async with started(ours, tmp_path / "ours") as server:
            with pytest.raises(LaunchError, match=r"not ours: it serves theirs") as caught:
                await ready(ours, server)

    assert caught.value.step == "proving it is ours"
    assert alive_in(tmp_path / "pids") == set()


async def test_a_server_with_our_very_name_is_still_not_ours(tmp_path: Path) -> None:
    theirs = make_plan(tmp_path)
    ours = replace(theirs, argv=tuple(fake_argv("plain", tmp_path / "pids")))

    async with started(theirs, tmp_path / "theirs") as other:
        await ready(theirs, other)
        async with started(ours, tmp_path / "ours") as server:
            with pytest.raises(LaunchError, match="socket belongs to a process"):
                await ready(ours, server)


async def test_a_taken_port_is_named_as_the_cause(tmp_path: Path) -> None:
    theirs = make_plan(tmp_path)
    ours = replace(theirs, ready_path="/nowhere")

    async with started(theirs, tmp_path / "theirs") as other:
        await ready(theirs, other)
        async with started(ours, tmp_path / "ours") as server:
            with pytest.raises(LaunchError, match="port was taken by another process"):
                await ready(ours, server)


async def test_waiting_can_be_cancelled(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, faults='{"hang_start": {}}')

    async with started(plan, tmp_path / "run") as server:
        waiting = asyncio.create_task(ready(plan, server))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    assert server.pids() == frozenset()


async def test_an_installed_python_plays_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = make_plan(tmp_path)

    async with started(plan, tmp_path / "run") as server:
        found, _ = await ready(plan, server)

    assert found.model == "ours"
    assert plan.argv[0] == sys.executable
