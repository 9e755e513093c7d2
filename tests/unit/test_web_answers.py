"""Problems, CSV cells and host checks, without a server."""

import socket
from typing import Any

import pytest

from app.domain.errors import (
    ConflictError,
    FieldProblem,
    LoadError,
    NotFoundError,
    RecipeError,
    SlipstreamError,
    StoreError,
)
from app.domain.recipe import validate
from app.store.workers import WorkerView
from app.web import cells_csv, hostchecks, problems
from app.web.headers import policy
from tests.builders import NOON, make_result


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFoundError("gone"), 404),
        (ConflictError("ended"), 409),
        (StoreError("locked"), 503),
        (RecipeError([FieldProblem("k", "is wrong.")]), 422),
        (LoadError("broke"), 500),
    ],
)
def test_each_error_has_its_status(error: SlipstreamError, status: int) -> None:
    assert problems.trouble_of(error).status == status


def test_an_error_that_nobody_named_tells_nothing() -> None:
    trouble = problems.trouble_of(LoadError("password hunter2"))

    assert "hunter2" not in trouble.detail + trouble.title + trouble.remedy


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_cell_that_a_spreadsheet_would_run_is_quoted(text: str) -> None:
    assert cells_csv.guard(text) == f"'{text}"


@pytest.mark.parametrize("value", ["code", "1-2", None, -1.5, 3])
def test_other_cells_stay_as_they_are(value: Any) -> None:
    assert cells_csv.guard(value) == value


def test_the_csv_has_one_row_per_cell_and_lane() -> None:
    result = make_result()

    lines = cells_csv.render(result).splitlines()

    assert lines[0].split(",") == list(cells_csv.COLUMNS)
    assert len(lines) == 1 + sum(len(cell.lanes) for cell in result.cells)
    assert {line.count(",") >= len(cells_csv.COLUMNS) - 1 for line in lines} == {True}


def test_pages_may_not_be_framed_and_embeds_may() -> None:
    assert "frame-ancestors 'none'" in policy()
    assert "frame-ancestors *" in policy(is_embed=True)
    assert "script-src 'none'" in policy(is_embed=True)


def worker(host: str, *engines: str) -> WorkerView:
    return WorkerView("w", host, 1, NOON, NOON, {name: {} for name in engines}, [], None)


def make_recipe(**changes: Any) -> Any:
    base = {"name": "a", "model": "org/name", "engine": "vllm", "lanes": {"baseline": {}}}
    return validate({**base, **changes})


def test_a_run_may_wait_for_a_worker_to_come() -> None:
    hostchecks.check(make_recipe(model="/no/such/folder"), [])


def test_one_worker_with_the_engine_is_enough() -> None:
    hostchecks.check(make_recipe(), [worker("a", "replay"), worker("b", "vllm")])


@pytest.mark.parametrize("model", ["/no/such/folder", "~/no/such", "./no/such", "../no/such"])
def test_a_local_folder_must_be_there(model: str) -> None:
    with pytest.raises(RecipeError) as caught:
        hostchecks.check(make_recipe(model=model), [worker(socket.gethostname(), "vllm")])

    assert [problem.field for problem in caught.value.problems] == ["model"]


@pytest.mark.parametrize("model", ["org/name", "recipes", "./recipes"])
def test_hub_names_and_folders_that_are_there_pass(model: str) -> None:
    hostchecks.check(make_recipe(model=model), [worker(socket.gethostname(), "vllm")])
