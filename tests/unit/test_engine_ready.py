"""Waiting for servers that somebody else runs, over a transport that answers from a table."""

from typing import Any

import httpx
import pytest

from app.domain.engine_args import EngineKind
from app.domain.errors import LaunchError
from app.domain.states import LaunchStep
from workers.engines import ENGINES
from workers.engines.base import LaunchPlan
from workers.launchers.none import ForeignServer
from workers.ready import Ready, check_address, wait_ready

MODELS = {"data": [{"id": "gemma", "max_model_len": 2048}]}
Pages = dict[str, tuple[int, Any]]


def make_plan(**changes: Any) -> LaunchPlan:
    fields: dict[str, Any] = {
        "argv": (),
        "env": {},
        "base_url": "http://box:8000",
        "served_model": None,
        "ready_path": "/v1/models",
        "proves_itself": False,
    }
    return LaunchPlan(**{**fields, **changes})


async def ready(pages: Pages, plan: LaunchPlan, steps: list[LaunchStep] | None = None) -> Ready:
    def answer(request: httpx.Request) -> httpx.Response:
        if not pages:
            raise httpx.ConnectError("refused")
        status, body = pages.get(request.url.path, (404, {"detail": "Not Found"}))
        return httpx.Response(status, json=body)

    note = steps.append if steps is not None else (lambda step: None)
    engine = ENGINES[EngineKind.ATTACH]
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        return await wait_ready(client, plan, ForeignServer(), engine, 0.05, note)


async def test_the_only_model_of_an_attached_server_is_raced() -> None:
    steps: list[LaunchStep] = []

    found = await ready({"/v1/models": (200, MODELS)}, make_plan(), steps)

    assert (found.model, found.max_model_len, found.version) == ("gemma", 2048, None)
    assert steps == [LaunchStep.STARTING, LaunchStep.READY]


async def test_its_version_is_read_where_it_tells() -> None:
    pages: Pages = {"/v1/models": (200, MODELS), "/version": (200, {"version": "0.32.0"})}

    found = await ready(pages, make_plan())

    assert found.version == "0.32.0"


async def test_several_models_ask_for_a_choice() -> None:
    pages: Pages = {"/v1/models": (200, {"data": [{"id": "a"}, {"id": "b"}]})}

    with pytest.raises(LaunchError, match=r"2 models: a, b.*served_model"):
        await ready(pages, make_plan())


async def test_a_named_model_is_taken_from_several() -> None:
    pages: Pages = {"/v1/models": (200, {"data": [{"id": "a"}, {"id": "b"}]})}

    found = await ready(pages, make_plan(served_model="b"))

    assert (found.model, found.max_model_len) == ("b", None)


async def test_a_model_that_is_not_served_is_answered_with_those_that_are() -> None:
    with pytest.raises(LaunchError, match=r"does not serve llama; it serves gemma"):
        await ready({"/v1/models": (200, MODELS)}, make_plan(served_model="llama"))


async def test_a_server_that_does_not_answer_is_named_with_a_remedy() -> None:
    with pytest.raises(LaunchError, match=r"Nothing answers at http://box:8000.*url"):
        await ready({}, make_plan())


async def test_a_server_that_wants_a_key_is_said_to_want_one() -> None:
    with pytest.raises(LaunchError, match=r"HTTP 401.*SLIPSTREAM_KEY_"):
        await ready({"/v1/models": (401, {})}, make_plan())


async def test_a_page_that_is_no_list_of_models_is_refused() -> None:
    with pytest.raises(LaunchError, match="not a list of models"):
        await ready({"/v1/models": (200, {"hello": "world"})}, make_plan())


async def test_a_name_that_leads_to_a_metadata_service_is_refused() -> None:
    with pytest.raises(LaunchError, match=r"169\.254\.169\.254.*link-local"):
        await check_address(make_plan(base_url="http://169.254.169.254"))


async def test_loopback_is_where_servers_are() -> None:
    await check_address(make_plan(base_url="http://127.0.0.1:8000"))
