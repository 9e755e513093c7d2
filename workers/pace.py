"""How long the rest of a run may take, from what its launches and heats have taken so far. Pure."""

from app.domain.recipe import Recipe

FIRST_LAUNCH_SECONDS = {"replay": 2.0, "attach": 0.5}
LAUNCH_SECONDS = 90.0
HEAT_OVERHEAD_SECONDS = 1.0
WARM_UP_SHARE = 0.2


class Pace:
    """Means of the launches and heats seen; guesses from the recipe before the first."""

    def __init__(self, recipe: Recipe) -> None:
        self._launch = _Mean(FIRST_LAUNCH_SECONDS.get(recipe.engine.value, LAUNCH_SECONDS))
        warm_up = min(recipe.warmup_seconds, recipe.decode.seconds * WARM_UP_SHARE * 10)
        self._warm_up = _Mean(warm_up * len(set(recipe.matrix.concurrency)))
        self._heat = _Mean(recipe.decode.seconds + HEAT_OVERHEAD_SECONDS)

    def launched(self, seconds: float) -> None:
        """A server took this long to get ready."""
        self._launch.add(seconds)

    def warmed(self, seconds: float) -> None:
        """A lane's warm-up took this long."""
        self._warm_up.add(seconds)

    def drove(self, seconds: float) -> None:
        """A heat took this long, everything around it included."""
        self._heat.add(seconds)

    def eta_seconds(self, *, heats_left: int, lanes_left: int) -> float:
        """Seconds until the last heat; `lanes_left` are those still to be launched."""
        per_lane = self._launch.mean + self._warm_up.mean
        return heats_left * self._heat.mean + lanes_left * per_lane


class _Mean:
    def __init__(self, guess: float) -> None:
        self._guess, self._sum, self._count = guess, 0.0, 0

    def add(self, value: float) -> None:
        self._sum += value
        self._count += 1

    @property
    def mean(self) -> float:
        return self._sum / self._count if self._count else self._guess
