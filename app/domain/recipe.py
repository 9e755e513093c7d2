"""The recipe: what to race, checked completely before anything starts or is stored."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)
from pydantic import ValidationError as PydanticError

from app.domain.engine_args import (
    ENGINE_RULES,
    EngineKind,
    LauncherKind,
    check_args,
    check_env,
)
from app.domain.errors import FieldProblem, RecipeError
from app.domain.urls import check_url

BASELINE = "baseline"
MAX_LANES = 64
MAX_CELLS = 400
MAX_HEATS = 20_000

LaneName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")]
SafeText = Annotated[str, Field(pattern=r"^[^\x00-\x08\x0b\x0c\x0e-\x1f]*$")]
Value = StrictBool | StrictInt | StrictFloat | StrictStr
Workload = Literal["code", "english-prose", "japanese-prose", "chat", "structured"]


class Part(BaseModel):
    """Every part of a recipe refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LauncherSpec(Part):
    """How the engine is started."""

    kind: LauncherKind = LauncherKind.PROCESS


class LaneSpec(Part):
    """One server configuration. Speculation is on when `k` is given;
    the adapter makes the flags."""

    drafter: SafeText | None = Field(None, max_length=400, description="Model that drafts")
    k: int | None = Field(None, ge=1, le=32, description="Tokens proposed per draft")
    method: SafeText | None = Field(None, max_length=40, description="Engine's name of the method")
    plays: SafeText | None = Field(
        None, max_length=80, description="Recorded lane to play (replay)"
    )
    url: SafeText | None = Field(None, max_length=400, description="Running server (attach)")
    served_model: SafeText | None = Field(
        None,
        max_length=400,
        description="Model name to ask for (attach); default: the only one served",
    )
    api_key: SafeText | None = Field(
        None,
        max_length=80,
        description="NAME of the worker's environment variable SLIPSTREAM_KEY_<NAME>",
    )
    args: dict[str, Value] = Field(default_factory=dict, max_length=60)
    env: dict[str, SafeText] = Field(default_factory=dict, max_length=60)

    @property
    def speculates(self) -> bool:
        """Whether this lane asks its server to speculate."""
        return self.k is not None or self.drafter is not None or self.method is not None


class Matrix(Part):
    """The cells: every workload x context tokens x concurrency."""

    contexts: list[Annotated[int, Field(ge=0, le=1_048_576)]] = Field(
        [0], min_length=1, max_length=40
    )
    concurrency: list[Annotated[int, Field(ge=1, le=1024)]] = Field(
        [1], min_length=1, max_length=40
    )
    workloads: list[Workload] = Field(["code"], min_length=1, max_length=5)


class Decode(Part):
    """How tokens are generated. Forced: exactly max_tokens, whatever the model wants to stop at."""

    mode: Literal["forced", "natural"] = "forced"
    seconds: float = Field(30, ge=0.5, le=3600, description="Planned steady window of a heat")
    max_tokens: int = Field(8192, ge=2, le=262_144, description="Cap of one stream's answer")
    temperature: float = Field(0, ge=0, le=2)
    top_p: float = Field(1, gt=0, le=1)
    seed: int = Field(42, ge=0, le=2**31 - 1)


class Sweep(Part):
    """Expands into lanes mtp-k1, mtp-k2, … made like the first variant (or with its drafter)."""

    k: list[Annotated[int, Field(ge=1, le=32)]] = Field(min_length=1, max_length=32)


class Recipe(Part):
    """A recipe, validated. `lanes` holds the expanded sweep; the baseline is always first."""

    name: SafeText = Field(min_length=1, max_length=200)
    model: SafeText = Field(min_length=1, max_length=400)
    engine: EngineKind
    launcher: LauncherSpec = Field(default_factory=LauncherSpec)
    args: dict[str, Value] = Field(default_factory=dict, max_length=60)
    env: dict[str, SafeText] = Field(default_factory=dict, max_length=60)
    lanes: dict[LaneName, LaneSpec] = Field(min_length=1, max_length=MAX_LANES)
    sweep: Sweep | None = None
    matrix: Matrix = Field(default_factory=Matrix)
    decode: Decode = Field(default_factory=Decode)
    repeats: int = Field(3, ge=1, le=50)
    warmup_seconds: float = Field(
        60, ge=0, le=3600, description="Longest warm-up per concurrency; 0 turns it off"
    )
    ready_seconds: float = Field(1800, ge=1, le=86_400, description="Longest wait for a server")
    notes: SafeText = Field("", max_length=5000)

    @model_validator(mode="before")
    @classmethod
    def _fill_launcher(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("engine") == EngineKind.ATTACH.value:
            return {"launcher": {"kind": LauncherKind.NONE.value}, **data}
        return data

    @model_validator(mode="after")
    def _expand_sweep(self) -> Self:
        if self.sweep is None:
            return self
        variants = [lane for lane in self.lanes.values() if lane.speculates]
        template = variants[0] if variants else LaneSpec()
        lanes = dict(self.lanes)
        for k in self.sweep.k:
            lanes.setdefault(f"mtp-k{k}", template.model_copy(update={"k": k}))
        object.__setattr__(self, "lanes", lanes)
        object.__setattr__(self, "sweep", None)
        return self

    @model_validator(mode="after")
    def _put_baseline_first(self) -> Self:
        if BASELINE in self.lanes:
            rest = {name: lane for name, lane in self.lanes.items() if name != BASELINE}
            object.__setattr__(self, "lanes", {BASELINE: self.lanes[BASELINE], **rest})
        return self

    @property
    def cells(self) -> list[tuple[str, int, int]]:
        """Every (workload, context tokens, concurrency) in the order they are raced."""
        grid = self.matrix
        return [
            (workload, context, concurrency)
            for workload in grid.workloads
            for context in grid.contexts
            for concurrency in grid.concurrency
        ]

    def args_of(self, lane: str) -> dict[str, Value]:
        """The recipe's flags with the lane's own laid over them."""
        return {**self.args, **self.lanes[lane].args}

    def env_of(self, lane: str) -> dict[str, str]:
        """The recipe's environment with the lane's own laid over it."""
        return {**self.env, **self.lanes[lane].env}


def validate(data: object) -> Recipe:
    """Make a Recipe of parsed YAML or JSON; RecipeError lists every problem with its field and
    remedy."""
    if not isinstance(data, dict):
        raise RecipeError([FieldProblem("", "a recipe is a mapping of keys to values.", _EXAMPLE)])
    try:
        recipe = Recipe.model_validate(data)
    except PydanticError as error:
        raise RecipeError([_explain(item) for item in error.errors()]) from None
    problems = check(recipe)
    if problems:
        raise RecipeError(problems)
    return recipe


def check(recipe: Recipe) -> list[FieldProblem]:
    """Everything that types alone cannot see."""
    rules = ENGINE_RULES[recipe.engine]
    problems = check_args(recipe.engine, recipe.args) + check_env(recipe.engine, recipe.env)
    problems += _check_name("model", recipe.model)
    if recipe.launcher.kind is not rules.launcher:
        problems.append(
            FieldProblem(
                "launcher.kind",
                f"{recipe.launcher.kind.value} cannot start {recipe.engine.value}.",
                f"Write launcher: {{kind: {rules.launcher.value}}}, or leave it out.",
            )
        )
    if BASELINE not in recipe.lanes:
        problems.append(
            FieldProblem(
                "lanes", "no lane is named baseline.", "Add `baseline: {}` to compare with."
            )
        )
    for name, lane in recipe.lanes.items():
        problems += _check_lane(recipe, name, lane)
    return problems + _check_sizes(recipe)


def _check_lane(recipe: Recipe, name: str, lane: LaneSpec) -> list[FieldProblem]:
    rules = ENGINE_RULES[recipe.engine]
    field = f"lanes.{name}"
    problems = check_args(recipe.engine, lane.args, f"{field}.args")
    if "race" in lane.args:
        problems.append(
            FieldProblem(
                f"{field}.args.race",
                "differs from the recipe's: all lanes play one race.",
                "Write it under args of the recipe; a lane's `plays` names the recorded lane.",
            )
        )
    problems += _check_name(f"{field}.drafter", lane.drafter)
    problems += check_env(recipe.engine, lane.env, f"{field}.env")
    blank = LaneSpec()
    given = {key for key in LaneSpec.model_fields if getattr(lane, key) != getattr(blank, key)}
    for key in sorted(given - rules.lane_keys):
        problems.append(
            FieldProblem(
                f"{field}.{key}",
                f"means nothing to {recipe.engine.value}.",
                f"Remove it; a lane of this engine has: {', '.join(sorted(rules.lane_keys))}.",
            )
        )
    if name == BASELINE and lane.speculates:
        problems.append(
            FieldProblem(
                field, "the baseline must not speculate.", "Remove its drafter, k and method."
            )
        )
    if rules.needs_drafter and lane.drafter and lane.k is None:
        problems.append(
            FieldProblem(f"{field}.k", "is missing.", "Say how many tokens are drafted, e.g. k: 3.")
        )
    if recipe.engine is EngineKind.ATTACH:
        problems += check_url(f"{field}.url", lane.url)
    return problems


def _check_name(field: str, name: str | None) -> list[FieldProblem]:
    """A model's name stands in an argv: it must not be read as a flag."""
    if name is None or (name.isprintable() and not name.startswith("-")):
        return []
    return [
        FieldProblem(field, "begins with a dash or is not printable.", "Name a model or a folder.")
    ]


def _check_sizes(recipe: Recipe) -> list[FieldProblem]:
    grid = recipe.matrix
    problems = [
        FieldProblem(f"matrix.{key}", "names a value twice.", "Name every value once.")
        for key, values in (
            ("contexts", grid.contexts),
            ("concurrency", grid.concurrency),
            ("workloads", grid.workloads),
        )
        if len(set(values)) != len(values)
    ]
    if len(recipe.lanes) > MAX_LANES:
        problems.append(
            FieldProblem("lanes", f"are more than {MAX_LANES}.", "Race fewer at a time.")
        )
    heats = len(recipe.cells) * len(recipe.lanes) * recipe.repeats
    if len(recipe.cells) > MAX_CELLS or heats > MAX_HEATS:
        problems.append(
            FieldProblem(
                "matrix",
                f"makes {len(recipe.cells)} cells and {heats} heats; "
                f"at most {MAX_CELLS} cells and {MAX_HEATS} heats are raced in one run.",
                "Race fewer contexts, concurrencies, workloads, lanes or repeats.",
            )
        )
    return problems + _check_context(recipe)


def _check_context(recipe: Recipe) -> list[FieldProblem]:
    name = ENGINE_RULES[recipe.engine].context_arg
    problems = []
    for lane in recipe.lanes:
        limit = recipe.args_of(lane).get(name) if name else None
        longest = max(recipe.matrix.contexts)
        if isinstance(limit, int) and longest + recipe.decode.max_tokens > limit:
            problems.append(
                FieldProblem(
                    "matrix.contexts",
                    f"{longest} tokens of context + {recipe.decode.max_tokens} of answer "
                    f"(decode.max_tokens) exceed {name} {limit} of lane {lane}.",
                    f"Raise args.{name}, or lower the context or decode.max_tokens.",
                )
            )
    return problems[:1]


_EXAMPLE = "Start from a card in recipes/, e.g. replay-b300."
_REMEDIES = {
    "extra_forbidden": "Remove it, or check its spelling.",
    "missing": "Add it.",
    "enum": "Write one of these.",
    "literal_error": "Write one of these.",
    "string_type": "Put it in quotes.",
    "string_pattern_mismatch": "Remove control characters.",
}


def _explain(item: Any) -> FieldProblem:
    """Turn one pydantic error into words for people."""
    field = ".".join(str(part) for part in item["loc"] if part != "[key]")
    kind = item["type"]
    if kind == "extra_forbidden":
        known = ", ".join(_known_keys(item["loc"]))
        return FieldProblem(field, "is not a key that a recipe knows.", f"Known here: {known}.")
    if kind == "greater_than_equal" and field.endswith(".k"):
        return FieldProblem(
            field, "must be at least 1.", "A lane without speculation is the baseline: leave k out."
        )
    if kind == "string_pattern_mismatch" and item["loc"][-1] == "[key]":
        return FieldProblem(
            field, "is not a lane name.", "Use lower-case letters, digits, . _ and - (at most 40)."
        )
    message = str(item["msg"])
    return FieldProblem(field, message[:1].lower() + message[1:] + ".", _REMEDIES.get(kind, ""))


_PARTS: dict[str, type[Part]] = {
    "launcher": LauncherSpec,
    "matrix": Matrix,
    "decode": Decode,
    "sweep": Sweep,
    "lanes": LaneSpec,
}


def _known_keys(loc: tuple[Any, ...]) -> list[str]:
    part = _PARTS.get(str(loc[0]), Recipe) if len(loc) > 1 else Recipe
    return sorted(part.model_fields)
