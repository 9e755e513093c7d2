"""The clock of the play: when the next step is due so that the mean speed is the recorded one. No
I/O, no wall clock.

A batch of n streams steps together, as an engine does. A step's base length is n * tokens_per_step
/ speed. Luck in the draws is paid back: half of the time by which the tokens are ahead of the
recorded speed is added to the next step, so that the mean over seconds is the recorded one and
single steps still look like steps. Deadlines are absolute: a late timer moves nothing.
"""

import random

PAYBACK = 0.5  # share of the lead (or lag) that the next step corrects
STEP_JITTER = 0.01  # relative standard deviation of one step's length
SHORTEST, LONGEST = 0.25, 3.0  # bounds of a step, in base lengths


class Pace:
    """Absolute deadlines of the steps of one busy spell."""

    def __init__(self, rng: random.Random, heat_noise: float) -> None:
        self._random = rng
        self._heat_noise = heat_noise
        self.heat_factor = 1.0
        self.deadline = 0.0
        self._lead = 0.0  # seconds of play that are out, beyond those that have passed
        self._base = 1.0
        self._length = 1.0
        self._tokens_per_second = 1.0

    def begin(self, now: float) -> None:
        """The server was idle and has work again: a new spell, with its own draw of speed."""
        self.heat_factor = max(0.5, self._random.gauss(1.0, self._heat_noise))
        self.deadline, self._lead = now, 0.0

    def tune(self, tokens_per_second: float, expected_tokens: float) -> None:
        """Set the aggregate speed and the expected tokens of one step of the whole batch."""
        self._tokens_per_second = tokens_per_second * self.heat_factor
        self._base = expected_tokens / self._tokens_per_second

    def next_deadline(self) -> float:
        jittered = self._base * self._random.gauss(1.0, STEP_JITTER) + PAYBACK * self._lead
        self._length = min(max(jittered, SHORTEST * self._base), LONGEST * self._base)
        self.deadline += self._length
        return self.deadline

    def count(self, tokens: int) -> None:
        """Tell what the step at the last deadline gave."""
        self._lead += tokens / self._tokens_per_second - self._length
