"""The replay server's doors: which path does what, in vLLM's shapes. Knows no wire format below a
request and an answer.
"""

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import parse_qs

from workers.replay import counters
from workers.replay.acceptance import tokens_per_step
from workers.replay.ask import (
    Ask,
    Refusal,
    Served,
    check_model,
    parse_ask,
    parse_object,
    read_prompt,
)
from workers.replay.book import DEFAULT_FIRST_TOKEN_SECONDS, Book
from workers.replay.faults import Armed, Fault, FaultError, arm, read_faults
from workers.replay.http import Connection, Request
from workers.replay.player import Player, Stream
from workers.replay.reply import ENGINE_DIED, Reply
from workers.replay.words import Writer, encode

VERSION = "slipstream-replay/1"
OWNER = "slipstream-replay"
PROCESS_START = time.time()
FAREWELL_SECONDS = 0.05  # between the last error object and the exit of a dying server


@dataclass(frozen=True)
class Settings:
    served: Served
    race: str
    seed: int
    heat_noise: float
    workload: str | None
    control_token: str | None


class Server:
    """One lane, served. `log` writes one line of the server's log."""

    def __init__(
        self, book: Book, settings: Settings, faults: Armed, log: Callable[[str], None]
    ) -> None:
        self._book, self._settings, self._faults, self._log = book, settings, faults, log
        self.player = Player(book, settings.seed, settings.heat_noise, self._trip)
        self.connections: set[Connection] = set()
        self._replies: dict[Stream, Reply] = {}
        self._requests = 0
        self._born = time.monotonic()
        self._random = random.Random(settings.seed)
        self._fingerprint = f"replay-{book.race_id}-{book.lane}"
        self._trips: dict[str, Callable[[Stream, Fault], None]] = {
            "kill": lambda stream, fault: os._exit(int(fault["exit_code"])),
            "die": self._die,
            "hang": self._hang,
            "error_mid_stream": self._break,
            "counters_reset": self._reset_counters,
        }
        self._doors: dict[tuple[str, str], Callable[[Connection, Request], None]] = {
            ("GET", "/health"): lambda c, r: c.answer(200, b""),
            ("GET", "/ping"): lambda c, r: c.answer(200, b""),
            ("GET", "/version"): lambda c, r: _json(c, {"version": VERSION}),
            ("GET", "/v1/models"): self._models,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/replay"): self._tell,
            ("GET", "/replay/expect"): self._expect,
            ("GET", "/replay/journal"): self._journal,
            ("POST", "/replay/faults"): self._set_faults,
            ("POST", "/tokenize"): self._tokenize,
            ("POST", "/v1/completions"): lambda c, r: self._complete(c, r, is_chat=False),
            ("POST", "/v1/chat/completions"): lambda c, r: self._complete(c, r, is_chat=True),
        }

    def connect(self) -> Connection:
        """A fresh connection, for the event loop."""
        return Connection(self._handle, self.connections)

    def end_streams(self, message: str = ENGINE_DIED) -> None:
        """Tell every open stream that it is over."""
        for stream, reply in list(self._replies.items()):
            self.player.drop(stream)
            reply.fail(message)
        self._replies.clear()

    def _handle(self, connection: Connection, request: Request) -> None:
        door = self._doors.get((request.method, request.path))
        try:
            if door is None:
                is_known = any(path == request.path for _, path in self._doors)
                status, what = (405, "Method Not Allowed") if is_known else (404, "Not Found")
                _json(connection, {"detail": what}, status)
            else:
                door(connection, request)
        except Refusal as refusal:
            connection.answer(refusal.status, refusal.body())

    # --- tokens
    def _complete(self, connection: Connection, request: Request, *, is_chat: bool) -> None:
        ask = parse_ask(request.body, self._settings.served, is_chat=is_chat)
        armed = arm(self._faults, self._requests, self._random)
        self._requests += 1
        if "http_500" in armed:
            raise Refusal(500, ENGINE_DIED, kind="InternalServerError")
        if ask.streams:
            connection.begin_stream()
        reply = Reply(ask, connection, self._settings.served.model, self._fingerprint, armed)
        stream = self._new_stream(ask, armed, reply)
        connection.on_gone = lambda: self._gone(stream)
        connection.on_writable = reply.flush
        self._replies[stream] = reply
        self.player.start(stream)

    def _new_stream(self, ask: Ask, armed: Armed, reply: Reply) -> Stream:
        writer = Writer(ask.prompt, ask.seed)
        limit = ask.max_tokens
        if not ask.ignores_eos:
            limit = min(limit, max(ask.min_tokens, writer.natural_length))
        if "stop_early" in armed:
            limit = min(limit, int(armed["stop_early"]["tokens"]))
        cold = armed.get("slow_first")

        def on_tokens(words: list[int], finish: str | None) -> None:
            if finish is not None:
                self._replies.pop(stream, None)
            reply.on_tokens(words, finish)

        stream = Stream(
            prompt_tokens=ask.prompt_tokens,
            max_tokens=ask.max_tokens,
            limit=limit,
            writer=writer,
            armed=armed,
            workload=ask.workload or self._settings.workload,
            on_tokens=on_tokens,
            is_cold=cold is not None
            and self._requests <= cold.after_requests + int(cold["requests"]),
        )
        return stream

    def _gone(self, stream: Stream) -> None:
        self._replies.pop(stream, None)
        self.player.drop(stream)

    # --- faults in mid-stream
    def _trip(self, stream: Stream) -> None:
        for kind, trip in self._trips.items():
            fault = stream.armed.get(kind)
            if fault is not None and stream.tokens >= fault.after_tokens:
                trip(stream, fault)

    def _die(self, stream: Stream, fault: Fault) -> None:
        self._log("ERROR [core.py:1120] EngineCore encountered a fatal error.")
        self._log(f"ERROR [async_llm.py:480] EngineDeadError: {ENGINE_DIED}")
        self.end_streams()
        loop = asyncio.get_running_loop()
        loop.call_later(FAREWELL_SECONDS, os._exit, int(fault["exit_code"]))

    def _hang(self, stream: Stream, fault: Fault) -> None:
        stream.is_hung = True

    def _break(self, stream: Stream, fault: Fault) -> None:
        reply = self._replies.pop(stream, None)
        self.player.drop(stream, "error")
        if reply is not None:
            reply.fail()

    def _reset_counters(self, stream: Stream, fault: Fault) -> None:
        if self._faults.pop("counters_reset", None) is not None:
            self.player.counters = counters.Counters(self._book.k)

    def _set_faults(self, connection: Connection, request: Request) -> None:
        token = self._settings.control_token
        if token is None:
            _json(connection, {"detail": "Not Found"}, 404)
        elif request.headers.get("authorization") != f"Bearer {token}":
            _json(connection, {"detail": "Unauthorized"}, 401)
        else:
            try:
                self._faults = read_faults(json.loads(request.body or b"{}"))
            except (FaultError, ValueError) as error:
                raise Refusal(400, str(error)) from error
            _json(connection, {"faults": sorted(self._faults)})

    # --- telling
    def _models(self, connection: Connection, request: Request) -> None:
        served = self._settings.served
        model = {
            "id": served.model,
            "object": "model",
            "created": int(PROCESS_START),
            "owned_by": OWNER,
            "root": self._settings.race,
            "parent": None,
            "max_model_len": served.max_model_len,
        }
        _json(connection, {"object": "list", "data": [model]})

    def _metrics(self, connection: Connection, request: Request) -> None:
        if "no_metrics" in self._faults:
            _json(connection, {"detail": "Not Found"}, 404)
            return
        shown, gauges = self.player.counters, self.player.gauges()
        stranger = self._faults.get("counters_run_ahead")
        if stranger is not None:
            extra = round((time.monotonic() - self._born) * float(stranger["tokens_per_second"]))
            values = {**vars(shown), "generation_tokens": shown.generation_tokens + extra}
            shown = counters.Counters(shown.positions)
            vars(shown).update(values)
            running = gauges.running + int(stranger["running"])
            gauges = counters.Gauges(running, gauges.waiting, gauges.kv_tokens)
        text = counters.render(shown, gauges, self._settings.served.model, PROCESS_START)
        connection.answer(200, text.encode(), "text/plain; version=1.0.0; charset=utf-8")

    def _tell(self, connection: Connection, request: Request) -> None:
        book = self._book
        cells = [asdict(point) for point in book.points]
        what = {
            "replay": True,
            "race": book.race_id,
            "title": book.title,
            "lane": book.lane,
            "k": book.k,
            "source": book.source,
            "seed": self._settings.seed,
            "heat_noise": self._settings.heat_noise,
            "faults": sorted(self._faults),
            "process_start": PROCESS_START,
            "pid": os.getpid(),
            "cells": cells,
            "prefill": book.prefill,
        }
        _json(connection, what)

    def _expect(self, connection: Connection, request: Request) -> None:
        """What the play should come to at ?context=&concurrency=[&workload=]."""
        query = {name: values[-1] for name, values in parse_qs(request.query).items()}
        try:
            context, concurrency = int(query.get("context", 0)), int(query.get("concurrency", 1))
        except ValueError as error:
            raise Refusal(400, f"context and concurrency must be integers: {error}") from error
        play = self._book.play(
            context, concurrency, query.get("workload") or self._settings.workload
        )
        per_step = tokens_per_step(play.per_position)
        what = {
            "tokens_per_second": play.tokens_per_second,
            "per_position": play.per_position,
            "tokens_per_step": per_step,
            "step_seconds": concurrency * per_step / play.tokens_per_second,
            "prefill_seconds": self._book.prefill_seconds(context),
            "first_token_seconds": self._book.prefill_seconds(context)
            + DEFAULT_FIRST_TOKEN_SECONDS,
        }
        _json(connection, what)

    def _journal(self, connection: Connection, request: Request) -> None:
        """The last steps: [planned_s, played_s, tokens, streams]; and the spell's draw of speed."""
        steps = [[s.planned_s, s.played_s, s.tokens, s.streams] for s in self.player.journal]
        _json(connection, {"heat_factor": self.player.pace.heat_factor, "steps": steps})

    def _tokenize(self, connection: Connection, request: Request) -> None:
        given = parse_object(request.body)
        check_model(given, self._settings.served)
        prompt, count = read_prompt(given, is_chat="messages" in given)
        tokens = encode(prompt) if isinstance(prompt, str) else prompt
        limit = self._settings.served.max_model_len
        _json(
            connection,
            {"count": count, "max_model_len": limit, "tokens": tokens, "token_strs": None},
        )


def _json(connection: Connection, what: Any, status: int = 200) -> None:
    connection.answer(status, json.dumps(what, separators=(",", ":")).encode())


def write_log(line: str) -> None:
    """One line of the server's log, in vLLM's manner, on stdout."""
    level, _, rest = line.partition(" ")
    stamp = time.strftime("%m-%d %H:%M:%S")
    sys.stdout.write(f"(APIServer pid={os.getpid()}) {level} {stamp} {rest}\n")
    sys.stdout.flush()
