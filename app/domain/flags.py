"""The one table of flags: words that weaken or void a number, with meaning, cause and remedy."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Flag:
    """A flag that may stand beside a number. `voids` means that no number is shown at all."""

    word: str
    voids: bool
    meaning: str
    cause: str
    remedy: str


_TABLE = (
    Flag(
        "approximate", False, "Tokens were counted in chunks; no verdict is given.",
        "The server sends neither usage nor token ids, and has no counters.",
        "Use a server that honours stream_options.continuous_usage_stats.",
    ),
    Flag(
        "count-mismatch", True, "The stream's tokens and the engine's counter disagree.",
        "Another client used the server, or the server reports usage wrongly.",
        "Race a server that nobody else uses; report the engine's bug.",
    ),
    Flag(
        "stopped-early", True, "A stream ended before the planned end although decode was forced.",
        "The server ignores ignore_eos / min_tokens, or cut the answer at its context.",
        "Use decode mode natural, or a server that honours ignore_eos.",
    ),
    Flag(
        "capped", False, "A stream reached max_tokens before 80 % of the planned window.",
        "The lane is faster than max_tokens allows for the planned seconds.",
        "Raise decode.max_tokens or lower decode.seconds.",
    ),
    Flag(
        "context-cut", True, "The server cut the answer: prompt + max_tokens exceed its context.",
        "Some servers answer 200 and generate fewer tokens than asked.",
        "Raise the server's context, or lower contexts or max_tokens.",
    ),
    Flag(
        "context-off", False, "The real prompt length is more than 1 % off the asked one.",
        "The server's chat template or tokenizer adds tokens.",
        "Read the real figure beside the cell; it is the one that counts.",
    ),
    Flag(
        "preempted", False, "The server ran fewer requests than were in flight.",
        "The KV cache cannot hold concurrency x (context + max_tokens).",
        "Give the server more KV space, or lower concurrency, context or max_tokens.",
    ),
    Flag(
        "cached-prefix", False, "Part of the prompt was served from the prefix cache.",
        "The prefix cache is on and a prompt was seen before.",
        "Turn the prefix cache off for the race.",
    ),
    Flag(
        "not-warm", False, "Warm-up probes never agreed within 5 %.",
        "The machine is noisy, or the server still compiles.",
        "Repeat on a quiet machine; raise the warm-up limit.",
    ),
    Flag(
        "not-what-was-asked", True, "Speculation was off where asked for, or on in the baseline.",
        "The engine ignored or changed the speculative settings.",
        "Read the lane's argv and log; fix the engine's version or flags.",
    ),
    Flag(
        "drafter-dead", False, "Not one draft token was accepted.",
        "The drafter does not fit the target, or was loaded wrongly.",
        "Use the drafter made for this model; update the engine.",
    ),
    Flag(
        "synthetic-acceptance", False, "Acceptance was simulated by the engine, not measured.",
        "The engine's synthetic rejection sampler is on.",
        "Read speeds as what-if figures only.",
    ),
    Flag(
        "client-bound", False, "The load process was busy enough to bend the numbers.",
        "It used over 50 % of a core, or its loop lagged over 20 ms (p99).",
        "Give the load process a free core; lower concurrency.",
    ),
    Flag(
        "client-void", True, "The load process was too busy for any number to stand.",
        "It used over 80 % of a core.",
        "Give the load process a free core; lower concurrency.",
    ),
    Flag(
        "throttled", False, "The GPU lowered its clocks for heat or power.",
        "NVML reported throttling during the heat.",
        "Cool the GPU, or raise or fix its power limit for all lanes.",
    ),
    Flag(
        "not-alone", True, "Somebody else used the GPU or the server during the heat.",
        "A foreign process was on the GPU, or the server ran requests that are not ours.",
        "Race on a machine and a server that nobody else uses.",
    ),
    Flag(
        "engine-died", True, "The server died during the heat.",
        "See the lane's log tail and diagnosis.",
        "Fix what the diagnosis names and race again.",
    ),
    Flag(
        "request-failed", True, "At least one request ended in an error.",
        "The server refused or broke off a request.",
        "Read the heat's error; it names what the server said.",
    ),
    Flag(
        "one-heat", False, "One heat only: no interval, and no winner is named.",
        "repeats is 1, or other heats were void.",
        "Set repeats to 3 or more.",
    ),
)  # fmt: skip

FLAGS: dict[str, Flag] = {flag.word: flag for flag in _TABLE}


def voids(words: list[str] | tuple[str, ...]) -> bool:
    """True when any of these flags voids the number it stands beside."""
    return any(FLAGS[word].voids for word in words)
