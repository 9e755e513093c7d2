"""What a client asks for: request bodies parsed, and refused in vLLM's words. Knows nothing of
sockets or of playing.
"""

import json
from dataclasses import dataclass
from typing import Any

from workers.replay.words import VOCABULARY_SIZE, count_tokens, encode, render_chat

DEFAULT_COMPLETION_TOKENS = 16  # vLLM's default of max_tokens for /v1/completions


class Refusal(Exception):
    """An error answer: status and the fields of vLLM's error object."""

    def __init__(
        self, status: int, message: str, param: str | None = None, kind: str = "BadRequestError"
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.kind = status, message, param, kind

    def body(self) -> bytes:
        return error_body(self.message, self.kind, self.param, self.status)


@dataclass(frozen=True)
class Ask:
    """One valid request for tokens."""

    is_chat: bool
    prompt: str | list[int]
    prompt_tokens: int
    max_tokens: int  # already cut to what the context leaves, as vLLM silently does
    min_tokens: int
    ignores_eos: bool
    seed: int
    streams: bool
    has_usage: bool
    has_continuous_usage: bool
    returns_ids: bool
    workload: str | None

    def prompt_ids(self) -> list[int]:
        return encode(self.prompt) if isinstance(self.prompt, str) else self.prompt


@dataclass(frozen=True)
class Served:
    """What the server serves."""

    model: str
    max_model_len: int


def error_body(message: str, kind: str, param: str | None, code: int) -> bytes:
    error = {"message": message, "type": kind, "param": param, "code": code}
    return json.dumps({"error": error}, separators=(",", ":"), ensure_ascii=False).encode()


def parse_object(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body)
    except ValueError as error:
        raise Refusal(400, f"Invalid JSON in the request body: {error}") from error
    if not isinstance(given, dict):
        raise Refusal(400, "The request body must be a JSON object.")
    return given


def parse_ask(body: bytes, served: Served, *, is_chat: bool) -> Ask:
    """The request, or Refusal with vLLM's status and message. Unknown fields are ignored, as vLLM
    does.
    """
    given = parse_object(body)
    check_model(given, served)
    streams = bool(given.get("stream"))
    options = given.get("stream_options") or {}
    if given.get("stream_options") is not None and not streams:
        what = "Stream options can only be defined when `stream=True`. (parameter=stream_options)"
        raise Refusal(400, what, "stream_options")
    if _integer(given, "n", 1) != 1:
        raise Refusal(400, "The replay server plays one choice per request; n must be 1.", "n")
    prompt, prompt_tokens = read_prompt(given, is_chat=is_chat)
    max_tokens = _max_tokens(given, prompt_tokens, served, is_chat=is_chat)
    min_tokens = _integer(given, "min_tokens", 0)
    if min_tokens > max_tokens:
        what = (
            f"min_tokens must be less than or equal to max_tokens={max_tokens}, got {min_tokens}."
        )
        raise Refusal(400, what)
    return Ask(
        is_chat=is_chat,
        prompt=prompt,
        prompt_tokens=prompt_tokens,
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        ignores_eos=bool(given.get("ignore_eos")),
        seed=_integer(given, "seed", 0) if given.get("temperature", 0) else 0,
        streams=streams,
        has_usage=bool(options.get("include_usage")) or not streams,
        has_continuous_usage=bool(
            options.get("include_usage") and options.get("continuous_usage_stats")
        ),
        returns_ids=bool(given.get("return_token_ids")),
        workload=str(given["slipstream_workload"]) if given.get("slipstream_workload") else None,
    )


def check_model(given: dict[str, Any], served: Served) -> None:
    model = given.get("model", served.model)
    if model != served.model:
        what = f"The model `{model}` does not exist. Valid aliases: {served.model}."
        raise Refusal(404, what, "model", "NotFoundError")


def read_prompt(given: dict[str, Any], *, is_chat: bool) -> tuple[str | list[int], int]:
    """The prompt as text or ids, and its length in tokens."""
    if is_chat:
        messages = given.get("messages")
        if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
            raise Refusal(400, "messages must be a list of objects.", "messages")
        text = render_chat(messages)
        return text, count_tokens(text)
    prompt = given.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt, count_tokens(prompt)
    if not isinstance(prompt, list) or not all(type(token) is int for token in prompt):
        raise Refusal(400, "prompt must be a text or a list of token ids.", "prompt")
    if not prompt:
        raise Refusal(400, "The decoder prompt cannot be empty", "prompt")
    if min(prompt) < 0 or max(prompt) >= VOCABULARY_SIZE:
        wrong = next(token for token in prompt if not 0 <= token < VOCABULARY_SIZE)
        raise Refusal(400, f"Token id {wrong} is out of vocabulary")
    return prompt, len(prompt)


def _max_tokens(given: dict[str, Any], prompt_tokens: int, served: Served, *, is_chat: bool) -> int:
    room = served.max_model_len - prompt_tokens
    if room < 0:
        raise Refusal(
            400,
            f"This model's maximum context length is {served.max_model_len} tokens. However, "
            f"your prompt contains {prompt_tokens} input tokens, which exceeds this limit even "
            "without any output tokens. Please reduce the length of the input prompt. "
            f"(parameter=input_tokens, value={prompt_tokens})",
            "input_tokens",
        )
    fallback = room if is_chat else DEFAULT_COMPLETION_TOKENS
    asked = _integer(given, "max_tokens", fallback)
    if is_chat:
        asked = _integer(given, "max_completion_tokens", asked)
    wanted = min(asked, room)
    if wanted < 1:
        what = (
            f"max_tokens must be at least 1, got {wanted}. (parameter=max_tokens, value={wanted})"
        )
        raise Refusal(400, what, "max_tokens")
    return wanted


def _integer(given: dict[str, Any], name: str, default: int) -> int:
    value = given.get(name)
    if value is None:
        return default
    if type(value) is not int:
        raise Refusal(400, f"{name} must be an integer, got {value!r}.", name)
    return value
