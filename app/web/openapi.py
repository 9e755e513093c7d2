"""The OpenAPI document: what FastAPI finds out, and the shapes that it cannot see."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.domain.recipe import Recipe
from app.web.api_runs import CardOrder
from app.web.problems import Problem

SHAPES = (Problem, Recipe, CardOrder)
TAGS = (
    {"name": "runs", "description": "Recipes that were submitted, from queued to frozen."},
    {"name": "ticks", "description": "What each lane did in each second, recorded and live."},
    {"name": "results", "description": "Frozen documents of finished runs."},
    {"name": "recipes", "description": "What can be raced, and how it is written."},
    {"name": "engines", "description": "What living workers found on their hosts."},
    {"name": "health", "description": "For supervisors."},
)
_REF = "#/components/schemas/{model}"


def describe(app: FastAPI) -> None:
    """Let the application publish the completed document, made once."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _build(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # how FastAPI documents it


def _build(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary="Races an LLM server with speculative decoding against the same without.",
        routes=app.routes,
        tags=list(TAGS),
    )
    schemas: dict[str, Any] = document.setdefault("components", {}).setdefault("schemas", {})
    for shape in SHAPES:
        schema = shape.model_json_schema(ref_template=_REF)
        for name, part in schema.pop("$defs", {}).items():
            schemas.setdefault(name, part)
        schemas.setdefault(shape.__name__, schema)
    return document
