"""Faults on request: what the replay server does wrong, for tests. Knows the words, not how each
is done.

JSON, either form:  {"die": {"after_tokens": 50, "exit_code": 0}}   [{"kind": "die",
"after_tokens": 50}] Each takes `after_tokens` (of its stream), `after_requests` (that many are
spared) and `probability` (per request, seeded).
"""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.domain.errors import SlipstreamError


class FaultError(SlipstreamError):
    """The faults cannot be read; the message names the cure."""


# kind -> its own parameters with their defaults. The comment says what a client or a launcher sees.
FAULTS: dict[str, dict[str, Any]] = {
    # before ready
    "hang_start": {},  # never healthy: the port never opens
    "exit_start": {"exit_code": 1, "line": "RuntimeError: Engine core initialization failed."},
    "refuse_flags": {"flag": "--no-such-flag"},  # exit 2 with an argparse usage
    "fork_child": {
        "seconds": 300.0
    },  # a double-forked grandchild that ignores SIGTERM stays behind
    "ignore_sigterm": {},
    # a request
    "http_500": {},  # 500 instead of a stream
    "slow_first": {
        "requests": 3,
        "extra_seconds": 1.0,
        "factor": 3.0,
    },  # cold: late first token, slow steps
    # in mid-stream, once after_tokens are out
    "die": {"exit_code": 0},  # error object and [DONE] on every stream, then exit
    "kill": {"exit_code": 137},  # os._exit: no farewell
    "hang": {},  # this stream stops sending but stays open
    "error_mid_stream": {},  # error object and [DONE] on this stream; the server lives
    "counters_reset": {},  # all counters fall to zero, once
    # what the stream says
    "stop_early": {"tokens": 20},  # finish_reason stop, even with ignore_eos
    "lie_usage": {"factor": 2.0},
    "no_usage": {},
    "usage_falls": {"by": 5},  # one chunk's cumulative usage is lower than the one before
    "no_token_ids": {},
    "merge_chunks": {"steps": 4},  # several steps in one chunk
    "first_chunk_bundle": {"tokens": 16},  # the first chunk waits for this many tokens
    "split_text_empty": {},  # every other chunk has empty text, though it carries tokens
    "no_done": {},  # the stream ends without [DONE]
    "bad_json": {},  # one data line is cut short
    "half_utf8": {},  # one data line holds half a character
    "long_line": {"bytes": 1_000_000},  # one data line is this much longer
    "role_chunk": {"chunks": 2},  # role chunks, without tokens, in mid-stream
    "reasoning_content": {"tokens": 32},  # chat: the first tokens come as reasoning
    # /metrics
    "no_metrics": {},  # 404
    "counters_run_ahead": {"tokens_per_second": 50.0, "running": 1},  # somebody else's load
}


@dataclass(frozen=True)
class Fault:
    kind: str
    after_tokens: int = 0
    after_requests: int = 0
    probability: float = 1.0
    params: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.params[name]


Armed = dict[str, Fault]


def parse_faults(text: str) -> Armed:
    """Faults by kind; FaultError names the field that is wrong."""
    try:
        given = json.loads(text or "{}")
    except ValueError as error:
        raise FaultError(f"faults are not JSON: {error}") from error
    return read_faults(given)


def read_faults(given: object) -> Armed:
    """Faults by kind, from parsed JSON in either form."""
    if isinstance(given, dict):
        given = [
            {"kind": kind, **(of if isinstance(of, dict) else {})} for kind, of in given.items()
        ]
    if not isinstance(given, list):
        raise FaultError('faults must be an object {"die": {…}} or a list [{"kind": "die", …}]')
    return {fault.kind: fault for fault in map(_read_one, given)}


def _read_one(given: object) -> Fault:
    if not isinstance(given, dict) or given.get("kind") not in FAULTS:
        raise FaultError(f"unknown fault {given!r}; there are {', '.join(FAULTS)}")
    kind = str(given["kind"])
    common = {"kind", "after_tokens", "after_requests", "probability"}
    unknown = set(given) - common - set(FAULTS[kind])
    if unknown:
        allowed = ", ".join(sorted((common - {"kind"}) | set(FAULTS[kind])))
        raise FaultError(
            f"fault {kind} has no parameter {', '.join(sorted(unknown))}; it has {allowed}"
        )
    return Fault(
        kind=kind,
        after_tokens=int(given.get("after_tokens", 0)),
        after_requests=int(given.get("after_requests", 0)),
        probability=float(given.get("probability", 1.0)),
        params={**FAULTS[kind], **{key: given[key] for key in given if key in FAULTS[kind]}},
    )


def arm(faults: Armed, request_number: int, rng: random.Random) -> Armed:
    """The faults that this request (counted from 0) will meet."""
    return {
        kind: fault
        for kind, fault in faults.items()
        if request_number >= fault.after_requests
        and (fault.probability >= 1.0 or rng.random() < fault.probability)
    }
