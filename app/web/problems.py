"""Errors on the wire: RFC 9457 problems for programs, a page for people.
The only place that turns an error into a status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from app.domain.errors import (
    ConflictError,
    FieldProblem,
    NotFoundError,
    RecipeError,
    SlipstreamError,
    StoreError,
)
from app.web import render

PROBLEM_JSON = "application/problem+json"


class FieldError(BaseModel):
    """One field that is wrong, and what to write instead."""

    field: str
    message: str
    remedy: str = ""


class Problem(BaseModel):
    """An RFC 9457 problem. `remedy` says what to do; `errors` lists fields of a bad request."""

    type: str = Field(examples=["urn:slipstream:problem:bad-request"])
    title: str
    status: int
    detail: str
    remedy: str = ""
    errors: list[FieldError] | None = None


@dataclass(frozen=True)
class Trouble:
    """A refusal before it is written down."""

    status: int
    kind: str
    title: str
    detail: str
    remedy: str = ""
    fields: Sequence[FieldProblem] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


STATUS_OF: dict[type[SlipstreamError], tuple[int, str]] = {
    RecipeError: (422, "bad-request"),
    NotFoundError: (404, "not-found"),
    ConflictError: (409, "conflict"),
    StoreError: (503, "database"),
}
INTERNAL = Trouble(
    500,
    "internal",
    "Something went wrong here",
    "This is a fault of Slipstream, not of the request.",
    "The dashboard's log has the details.",
)

_EXPLAINED = {
    401: "A token is missing or wrong",
    403: "The request does not come from this site",
    404: "Nothing is there, or not any more",
    409: "The state of the run or result forbids it",
    413: "The body is too large",
    415: "The body is of a type that is not read",
    422: "A field is wrong; `errors` names it and the remedy",
    503: "The database or a place for one more viewer is missing",
}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI entries for these problems; 401, 422 and 503 can always happen."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        status: {"description": _EXPLAINED[status], "content": {PROBLEM_JSON: schema}}
        for status in sorted({401, 422, 503, *statuses})
    }


def wants_page(path: str) -> bool:
    """People read everything but the API and the .json and .csv twins."""
    return not path.startswith("/api/") and not path.endswith((".json", ".csv"))


def respond(request: Request, trouble: Trouble) -> Response:
    """The refusal in the shape that this path's readers expect."""
    if wants_page(request.url.path):
        response: Response = render.error_page(
            request, trouble.status, trouble.title, trouble.detail, trouble.remedy
        )
    else:
        response = JSONResponse(_body(trouble), trouble.status, media_type=PROBLEM_JSON)
    response.headers.update(trouble.headers)
    return response


def trouble_of(error: SlipstreamError) -> Trouble:
    """Status and words of one of our own errors."""
    if isinstance(error, RecipeError):
        return bad_fields(error.problems, title=error.title)
    known = next((kind for kind in STATUS_OF if isinstance(error, kind)), None)
    if known is None:
        return INTERNAL
    status, name = STATUS_OF[known]
    headers = {"Retry-After": "5"} if status == 503 else {}
    return Trouble(status, name, error.title, error.message, error.remedy, headers=headers)


def bad_fields(problems: Sequence[FieldProblem], *, title: str) -> Trouble:
    """422 that names every field."""
    return Trouble(
        422, "bad-request", title, " ".join(str(problem) for problem in problems), fields=problems
    )


def install(app: FastAPI) -> None:
    """Register the handlers of every error that handlers may raise."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, SlipstreamError)
        return respond(request, trouble_of(error))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return respond(request, _of_http(error))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        found = [_field_problem(item) for item in error.errors()]
        return respond(request, bad_fields(found, title="The request cannot be read"))

    for kind in STATUS_OF:
        app.add_exception_handler(kind, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)


def _of_http(error: HTTPException) -> Trouble:
    phrase = HTTPStatus(error.status_code).phrase
    kind, words = _HTTP.get(error.status_code, (f"http-{error.status_code}", phrase))
    detail = words if error.detail == phrase else error.detail
    return Trouble(
        error.status_code,
        kind,
        kind.replace("-", " ").capitalize(),
        detail,
        headers=error.headers or {},
    )


# Python renames phrases between versions (413), and types of problems must stay.
_HTTP = {
    404: ("not-found", "There is nothing at this address."),
    405: ("method-not-allowed", "This address does not take that method."),
    413: ("content-too-large", "The body is too large."),
    415: ("unsupported-media-type", "A body of this type is not read."),
    503: ("full", "Come again later."),
}


def _field_problem(item: Mapping[str, Any]) -> FieldProblem:
    where = [str(part) for part in item["loc"]]
    message = str(item["msg"])
    return FieldProblem(".".join(where[1:]) or where[0], message[:1].lower() + message[1:] + ".")


def _body(trouble: Trouble) -> dict[str, Any]:
    problem = Problem(
        type=f"urn:slipstream:problem:{trouble.kind}",
        title=trouble.title,
        status=trouble.status,
        detail=trouble.detail,
        remedy=trouble.remedy,
        errors=[
            FieldError(field=each.field, message=each.message, remedy=each.remedy)
            for each in trouble.fields
        ]
        or None,
    )
    return problem.model_dump(exclude_none=True)
