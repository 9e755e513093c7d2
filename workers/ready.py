"""Waits until a started server answers, and proves that it is ours before a request is sent.

A port that answers proves nothing: a server that died of a taken port looks healthy, since
somebody else's answers there (seen). So: our model id, started since our launch, our process's
socket.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from app.domain.errors import LaunchError
from app.domain.states import LaunchStep
from app.domain.text import storable
from app.domain.urls import refuse_address
from workers.diagnose import diagnose
from workers.engines.base import Engine, LaunchPlan
from workers.http import Answer, ask
from workers.launchers.base import Server
from workers.ports import listens, port_of

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 0.5
PAUSE_GROWTH = 1.25
REQUEST_SECONDS = 10.0
ATTACH_PATIENCE_SECONDS = 5.0  # a server that should already run
CLOCK_SLACK_SECONDS = 2.0  # process start times are rounded to ticks, clocks step

OnStep = Callable[[LaunchStep], None]


@dataclass(frozen=True)
class Ready:
    """A server that answers, and is the one we mean."""

    model: str
    """The name to ask for."""
    max_model_len: int | None
    """Longest prompt + answer in tokens; None when it does not tell."""
    version: str | None
    """The engine's own version; None when it does not tell."""
    seconds: float
    """How long we waited."""
    models: tuple[str, ...] = ()


async def wait_ready(
    client: httpx.AsyncClient,
    plan: LaunchPlan,
    server: Server,
    engine: Engine,
    deadline_seconds: float,
    on_step: OnStep,
) -> Ready:
    """Wait for health, prove, and read what it serves. LaunchError names the step that failed."""
    begun = time.monotonic()
    steps = _Steps(server, engine, on_step)
    limit = deadline_seconds if plan.argv else min(deadline_seconds, ATTACH_PATIENCE_SECONDS)
    await _wait_healthy(client, plan, server, engine, begun + limit, steps)
    if plan.proves_itself:
        steps.go(LaunchStep.PROVING)
        await prove_ours(client, plan, server, engine)
    models = await _list_models(client, plan)
    ready = Ready(
        model=_choose_model(plan, models),
        max_model_len=_context(models, plan),
        version=await _version(client, plan),
        seconds=time.monotonic() - begun,
        models=tuple(models),
    )
    steps.go(LaunchStep.READY)
    return ready


async def prove_ours(
    client: httpx.AsyncClient, plan: LaunchPlan, server: Server, engine: Engine
) -> None:
    """LaunchError unless the server at this address is the one that we have started."""
    models = list(await _list_models(client, plan))
    if models != [plan.served_model]:
        raise _not_ours(plan, f"it serves {', '.join(models) or 'nothing'}")
    if not listens(server.pids(), port_of(plan.base_url)):
        raise _not_ours(plan, "its socket belongs to a process that we did not start")
    if plan.metrics_path is None:
        return
    page = await _get(client, plan, plan.metrics_path)
    if page is None or page.status_code != 200:
        return  # no page, no start time; the socket's owner has proven it
    started_at = engine.read(page.text, "").process_started_at
    if started_at is not None and started_at < server.started_at - CLOCK_SLACK_SECONDS:
        raise _not_ours(plan, "it was started before our launch")


async def check_address(plan: LaunchPlan) -> None:
    """LaunchError when a stranger's URL resolves to an address that is never a server's.

    The name was judged when the recipe was read; only now is it known where it leads.
    """
    url = urlsplit(plan.base_url)
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(url.hostname, url.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LaunchError(
            f"{url.hostname} cannot be resolved ({error}).",
            step=LaunchStep.PREFLIGHT.value,
            remedy="Correct the lane's url.",
        ) from error
    for address in {str(row[4][0]).partition("%")[0] for row in found}:
        reason = refuse_address(address)
        if reason:
            raise LaunchError(
                f"{url.hostname} leads to {address}, which {reason}.",
                step=LaunchStep.PREFLIGHT.value,
                remedy="Name a server of yours.",
            )


class _Steps:
    """Reads the log as it grows and says when the launch has moved on."""

    def __init__(self, server: Server, engine: Engine, on_step: OnStep) -> None:
        self.now = LaunchStep.STARTING
        self._server, self._engine, self._on_step = server, engine, on_step
        self._next_line = 0
        on_step(self.now)

    def look(self) -> None:
        self._next_line, lines = self._server.log_lines(self._next_line)
        seen = [step for line in lines if (step := self._engine.step(line)) is not None]
        for step in seen:
            self.go(step)

    def go(self, step: LaunchStep) -> None:
        if step is not self.now:
            self.now = step
            self._on_step(step)


async def _wait_healthy(
    client: httpx.AsyncClient,
    plan: LaunchPlan,
    server: Server,
    engine: Engine,
    deadline: float,
    steps: _Steps,
) -> None:
    pause = FIRST_PAUSE_SECONDS
    while True:
        steps.look()
        ended = server.exited()
        if ended is not None:
            steps.look()
            found = diagnose(engine.kind, server.log_tail(), ended)
            raise LaunchError(found.cause, step=steps.now.value, remedy=found.remedy)
        answer = await _get(client, plan, plan.ready_path)
        if answer is not None and answer.status_code == 200:
            return
        if answer is not None and answer.status_code in (401, 403):
            raise _refused(plan, answer)
        if time.monotonic() >= deadline:
            raise _too_late(plan, answer, steps.now)
        await asyncio.sleep(pause)
        pause = min(LONGEST_PAUSE_SECONDS, pause * PAUSE_GROWTH)


async def _get(client: httpx.AsyncClient, plan: LaunchPlan, path: str) -> Answer | None:
    """The answer; None when nobody answers."""
    try:
        return await ask(
            client, "GET", plan.base_url + path, headers=plan.headers, seconds=REQUEST_SECONDS
        )
    except httpx.RequestError:
        return None


async def _list_models(client: httpx.AsyncClient, plan: LaunchPlan) -> dict[str, dict[str, Any]]:
    """Model id -> what the server says of it."""
    answer = await _get(client, plan, plan.models_path)
    if answer is not None and answer.status_code in (401, 403):
        raise _refused(plan, answer)
    if answer is None or answer.status_code != 200:
        said = "nothing" if answer is None else f"HTTP {answer.status_code}"
        raise LaunchError(
            f"{plan.base_url}{plan.models_path} answered {said}.",
            step=LaunchStep.PROVING.value,
            remedy="Check that this is an OpenAI-compatible server, and its log.",
        )
    try:
        return {storable(str(row["id"])): dict(row) for row in answer.json()["data"]}
    except (ValueError, KeyError, TypeError) as error:
        raise LaunchError(
            f"{plan.base_url}{plan.models_path} is not a list of models.",
            step=LaunchStep.PROVING.value,
            remedy="Give the URL of an OpenAI-compatible server, without a path.",
        ) from error


def _choose_model(plan: LaunchPlan, models: dict[str, dict[str, Any]]) -> str:
    names = ", ".join(models) or "none"
    if plan.served_model is not None:
        if plan.served_model in models:
            return plan.served_model
        raise LaunchError(
            f"{plan.base_url} does not serve {plan.served_model}; it serves {names}.",
            step=LaunchStep.PROVING.value,
            remedy="Correct the lane's served_model.",
        )
    if len(models) == 1:
        return next(iter(models))
    raise LaunchError(
        f"{plan.base_url} serves {len(models)} models: {names}.",
        step=LaunchStep.PROVING.value,
        remedy="Name one as the lane's served_model.",
    )


def _context(models: dict[str, dict[str, Any]], plan: LaunchPlan) -> int | None:
    told = models[_choose_model(plan, models)].get("max_model_len")
    return told if isinstance(told, int) and told > 0 else None


async def _version(client: httpx.AsyncClient, plan: LaunchPlan) -> str | None:
    answer = await _get(client, plan, "/version")
    if answer is None or answer.status_code != 200:
        return None
    try:
        told = answer.json()["version"]
    except (ValueError, KeyError, TypeError):
        return None  # another server's page of that name
    return storable(str(told))[:80]


def _not_ours(plan: LaunchPlan, why: str) -> LaunchError:
    return LaunchError(
        f"The server that answers at {plan.base_url} is not ours: {why}.",
        step=LaunchStep.PROVING.value,
        remedy="Another process took the port while ours started; race again.",
    )


def _refused(plan: LaunchPlan, answer: Answer) -> LaunchError:
    return LaunchError(
        f"{plan.base_url} refused us with HTTP {answer.status_code}.",
        step=LaunchStep.WAITING_READY.value,
        remedy="Give the lane an api_key: NAME, and set SLIPSTREAM_KEY_<NAME> for the worker.",
    )


def _too_late(plan: LaunchPlan, answer: Answer | None, step: LaunchStep) -> LaunchError:
    if plan.argv:
        return LaunchError(
            "The server did not get ready in time.",
            step=step.value,
            remedy="Raise ready_seconds, or see in its log where it hangs.",
        )
    said = "Nothing answers" if answer is None else f"HTTP {answer.status_code} comes back"
    return LaunchError(
        f"{said} at {plan.base_url}{plan.ready_path}.",
        step=step.value,
        remedy="Start the server, or correct the lane's url (scheme, host and port).",
    )
