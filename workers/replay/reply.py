"""The answer to one request for tokens, chunk by chunk or whole, in vLLM's shapes. Knows nothing
of pace or of the book.

One chunk carries one step. A word whose last character is not whole yet (words.is_held) gives its
text with the next chunk, so a chunk may have empty text and yet carry a token; usage counts it at
once.
"""

import json
import time
import uuid
from typing import Protocol

from workers.replay.ask import Ask, error_body
from workers.replay.faults import Armed
from workers.replay.mangle import HOLDS, LINES, USAGES, Said
from workers.replay.words import FIRST_WORD_ID, JSON_WORDS, WORDS, is_held

ENGINE_DIED = "EngineCore encountered an issue. See stack trace (above) for the root cause."
DONE = b"data: [DONE]\n\n"


class Wire(Protocol):
    """The way to the client."""

    is_paused: bool

    def write(self, data: bytes) -> None: ...
    def finish(self) -> None: ...
    def answer(self, status: int, body: bytes) -> None: ...


class Reply:
    """Turns words into chunks on the wire (stream) or one JSON body (no stream)."""

    def __init__(self, ask: Ask, wire: Wire, model: str, fingerprint: str, armed: Armed) -> None:
        self.ask, self.armed, self.said = ask, armed, Said()
        self._wire = wire
        prefix, what = (
            ("chatcmpl", "chat.completion") if ask.is_chat else ("cmpl", "text_completion")
        )
        self._object = f"{what}.chunk" if ask.is_chat and ask.streams else what
        self._head = (
            f'{{"id":"{prefix}-{uuid.uuid4().hex[:16]}","object":"{self._object}","created":{int(time.time())},'
            f'"model":{json.dumps(model)},"choices":['
        )
        self._fingerprint = f',"system_fingerprint":"{fingerprint}"'
        self._pending: list[int] = []
        self._finish: str | None = None
        self._held = ""
        self._is_closed = False
        if ask.is_chat and ask.streams:
            self.say_role()

    def on_tokens(self, words: list[int], finish: str | None) -> None:
        """Tokens of one step came; `finish` is the reason if they are the last."""
        self._pending += words
        self._finish = finish
        self.said.steps += 1
        if not self.ask.streams:
            if finish:
                self._answer_whole(finish)
            return
        if finish is None and (self._wire.is_paused or self._holds()):
            return  # a slow reader, like a busy server, gets several steps in one chunk
        self.flush()

    def flush(self) -> None:
        """Send what has piled up; the end too, if it was reached."""
        if self._is_closed or not self.ask.streams or not (self._pending or self._finish):
            return
        words, self._pending = self._pending, []
        self.said.tokens += len(words)
        line = self._chunk(words, self._finish)
        if self.armed:
            for kind, mangle in LINES.items():
                if kind in self.armed and self.said.tokens >= self.armed[kind].after_tokens:
                    line = mangle(line, self.armed[kind], self.said, self)
        self.said.chunks += 1
        self._wire.write(line)
        if self._finish:
            self._end()

    def fail(self, message: str = ENGINE_DIED) -> None:
        """The engine broke: an error object without choices, then [DONE]; or a 500 where nothing
        was sent.
        """
        if self._is_closed:
            return
        self._is_closed = True
        body = error_body(message, "InternalServerError", None, 500)
        if not self.ask.streams:
            self._wire.answer(500, body)
            return
        self._wire.write(b"data: " + body + b"\n\n" + DONE)
        self._wire.finish()

    def say_role(self) -> None:
        self._wire.write(self.role_line())

    def role_line(self) -> bytes:
        """vLLM's first chat chunk: a role, no token."""
        what = '"delta":{"role":"assistant","content":""}' if self.ask.is_chat else '"text":""'
        ids = (
            f',"prompt_token_ids":{self._prompt_ids()},"prompt_text":null'
            if self.ask.is_chat
            else ""
        )
        choice = f'{{"index":0,{what},"logprobs":null,"finish_reason":null}}'
        return f"data: {self._head}{choice}]{self._usage(self.said.tokens)}{ids}}}\n\n".encode()

    def _holds(self) -> bool:
        count = len(self._pending)
        return any(
            HOLDS[kind](fault, self.said, count)
            for kind, fault in self.armed.items()
            if kind in HOLDS and self.said.tokens + count >= fault.after_tokens
        )

    def _chunk(self, words: list[int], finish: str | None) -> bytes:
        text = self._text(words, finish)
        ids = self._ids(words)
        reason = f'"{finish}"' if finish else "null"
        if self.ask.is_chat:
            key = "reasoning_content" if self._is_reasoning() else "content"
            choice = (
                f'{{"index":0,"delta":{{"{key}":"{text}"}},"logprobs":null,"finish_reason":{reason},'
                f'"stop_reason":null,"token_ids":{ids}}}'
            )
        else:
            first = self._prompt_ids() if self.said.chunks == 0 else "null"
            choice = (
                f'{{"index":0,"text":"{text}","logprobs":null,"finish_reason":{reason},"stop_reason":null,'
                f'"prompt_token_ids":{first},"token_ids":{ids}}}'
            )
        end = self._fingerprint if finish and not self.ask.has_usage else ""
        return f"data: {self._head}{choice}]{self._usage(self.said.tokens)}{end}}}\n\n".encode()

    def _text(self, words: list[int], finish: str | None) -> str:
        """Text for JSON, already escaped."""
        text = self._held + "".join([JSON_WORDS[word] for word in words])
        self._held = ""
        if finish is None and words and is_held(words[-1]):
            last = JSON_WORDS[words[-1]]
            text, self._held = text[: len(text) - len(last)], last
        if finish is None and "split_text_empty" in self.armed and self.said.chunks % 2 == 0:
            text, self._held = "", text + self._held
        return text

    def _is_reasoning(self) -> bool:
        fault = self.armed.get("reasoning_content")
        return fault is not None and self.said.tokens <= int(fault["tokens"])

    def _ids(self, words: list[int]) -> str:
        if not self.ask.returns_ids or "no_token_ids" in self.armed:
            return "null"
        return "[" + ",".join([str(FIRST_WORD_ID + word) for word in words]) + "]"

    def _prompt_ids(self) -> str:
        if not self.ask.returns_ids or "no_token_ids" in self.armed:
            return "null"
        return json.dumps(self.ask.prompt_ids(), separators=(",", ":"))

    def _usage(self, tokens: int) -> str:
        return (
            f',"usage":{self._usage_object(tokens)}'
            if self.ask.has_continuous_usage and self._tells()
            else ""
        )

    def _tells(self) -> bool:
        return "no_usage" not in self.armed

    def _usage_object(self, tokens: int) -> str:
        for kind, lie in USAGES.items():
            if kind in self.armed and tokens >= self.armed[kind].after_tokens:
                tokens = lie(tokens, self.armed[kind], self.said)
        prompt = self.ask.prompt_tokens
        total = prompt + tokens
        return f'{{"prompt_tokens":{prompt},"total_tokens":{total},"completion_tokens":{tokens}}}'

    def _end(self) -> None:
        self._is_closed = True
        if self.ask.has_usage and self._tells():
            usage = f'],"usage":{self._usage_object(self.said.tokens)}{self._fingerprint}}}\n\n'
            self._wire.write(f"data: {self._head}{usage}".encode())
        if "no_done" not in self.armed:
            self._wire.write(DONE)
        self._wire.finish()

    def _answer_whole(self, finish: str) -> None:
        self._is_closed = True
        words = self._pending
        text = json.dumps("".join(WORDS[word] for word in words))
        end = (
            f'"logprobs":null,"finish_reason":"{finish}","stop_reason":null,'
            f'"token_ids":{self._ids(words)}'
        )
        if self.ask.is_chat:
            message = f'{{"role":"assistant","content":{text},"reasoning":null}}'
            choice = f'{{"index":0,"message":{message},{end}}}'
            ids = f',"prompt_token_ids":{self._prompt_ids()}'
        else:
            choice = f'{{"index":0,"text":{text},{end},"prompt_token_ids":{self._prompt_ids()}}}'
            ids = ""
        usage = f',"usage":{self._usage_object(len(words))}' if self._tells() else ""
        self._wire.answer(200, f"{self._head}{choice}]{self._fingerprint}{usage}{ids}}}".encode())
