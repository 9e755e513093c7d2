"""What stands around the runs: recipe cards, the recipe's schema, engines of living workers,
and whether this process is alive and ready."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel

from app.config import version
from app.domain.recipe import Recipe
from app.store import cards, workers
from app.web.deps import Db, Now
from app.web.problems import documented

router = APIRouter()
health_router = APIRouter(tags=["health"])


class Card(BaseModel):
    """A file of recipes/."""

    name: str
    title: str
    engine: str
    comment: str
    yaml: str


class CardList(BaseModel):
    """All recipe cards, by name."""

    recipes: list[Card]


class WorkerEntry(BaseModel):
    """A living worker and what it found on its host."""

    name: str
    host: str
    started_at: datetime
    seen_at: datetime
    engines: dict[str, dict[str, Any]]
    gpus: list[dict[str, Any]]
    run_id: str | None


class EngineList(BaseModel):
    """Engines that can race now, and the workers that have them."""

    engines: list[str]
    workers: list[WorkerEntry]


class Health(BaseModel):
    """The process answers."""

    status: Literal["alive"] = "alive"
    version: str


class Ready(BaseModel):
    """The database answers too. Without a worker runs wait."""

    status: Literal["ready"] = "ready"
    workers: int
    detail: str


@router.get("/recipes", responses=documented(), tags=["recipes"])
def list_recipes() -> CardList:
    """Recipe cards that travel with this installation."""
    return CardList(recipes=[Card(**asdict(card)) for card in cards.recipe_cards()])


@router.get("/recipes/{name}", responses=documented(404), tags=["recipes"])
def read_recipe(name: Annotated[str, Path(max_length=80, examples=["replay-b300"])]) -> Card:
    """One recipe card."""
    return Card(**asdict(cards.recipe_card(name)))


@router.get("/recipe.schema.json", responses=documented(), tags=["recipes"])
def read_recipe_schema() -> dict[str, Any]:
    """JSON Schema of a recipe, for editors."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return schema | Recipe.model_json_schema()


@router.get("/engines", responses=documented(), tags=["engines"])
def list_engines(db: Db, now: Now) -> EngineList:
    """Engines found by the workers that live now."""
    with db.read() as session:
        living = workers.living(session, now=now)
    found = {engine for worker in living for engine in worker.engines}
    return EngineList(
        engines=sorted(found),
        workers=[WorkerEntry.model_validate(asdict(worker)) for worker in living],
    )


@health_router.get("/health")
def check_health() -> Health:
    """Whether this process is alive. Public."""
    return Health(version=version())


@health_router.get("/ready", responses={503: documented()[503]})
def check_ready(db: Db, now: Now) -> Ready:
    """Whether the database answers, and how many workers live. Public."""
    with db.read() as session:
        count = len(workers.living(session, now=now))
    return Ready(
        workers=count,
        detail="runs are raced" if count else "no worker is alive: runs wait until one is",
    )
