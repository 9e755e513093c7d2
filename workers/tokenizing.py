"""Asks a server how long texts are: its /tokenize where it has one,
else the usage of a tiny request."""

from typing import Any

import httpx

from app.domain.errors import LaunchError
from app.domain.states import LaunchStep
from workers.engines.base import Engine, LaunchPlan, RequestShape
from workers.http import ask

TOKENIZE_PATH = "/tokenize"
REQUEST_SECONDS = 120.0
PROBE = "Hello"


class ServerTokenizer:
    """The server's own tokenizer. Every text is asked for once."""

    def __init__(self, client: httpx.AsyncClient, plan: LaunchPlan, model: str) -> None:
        self._client, self._plan, self._model = client, plan, model
        self._path = plan.tokenize_path or TOKENIZE_PATH
        self._known: dict[str, list[int]] = {}

    async def is_there(self) -> bool:
        """Whether this server tokenizes for us."""
        try:
            await self.encode(PROBE)
        except LaunchError:
            return False
        return True

    async def count(self, text: str) -> int:
        """Length in tokens, as the server would count it in a prompt."""
        return len(await self.encode(text))

    async def encode(self, text: str) -> list[int]:
        """Token ids, with a begin token if the server adds one."""
        if text not in self._known:
            answer = await _post(
                self._client, self._plan, self._path, {"model": self._model, "prompt": text}
            )
            ids = answer.get("tokens")
            if not isinstance(ids, list) or not all(isinstance(one, int) for one in ids):
                raise _unusable(f"{self._path} gave no token ids")
            if text and not ids:
                raise _unusable(f"{self._path} gave no tokens for {len(text)} characters")
            self._known[text] = ids
        return self._known[text]


class UsageMeter:
    """Lengths from usage.prompt_tokens of one-token requests, for servers that do not tokenize.

    Some servers have chat completions only: then texts go as the one message of a chat.
    """

    def __init__(
        self, client: httpx.AsyncClient, plan: LaunchPlan, model: str, engine: Engine
    ) -> None:
        self._client, self._plan, self._model, self._engine = client, plan, model, engine
        self.is_chat = False

    async def find_dialect(self) -> None:
        """Learn whether this server completes text, or only chats."""
        try:
            await self._ask(PROBE)
        except _NoSuchPathError:
            self.is_chat = True

    async def measure(self, text: str) -> int | None:
        """Length of `text` in tokens; None when the server does not tell. Costs a request."""
        answer = await self._ask(text)
        tokens = (answer.get("usage") or {}).get("prompt_tokens")
        return tokens if isinstance(tokens, int) else None

    def dress(self, text: str) -> str | list[dict[str, str]]:
        """Text as this server takes it."""
        return [{"role": "user", "content": text}] if self.is_chat else text

    async def _ask(self, text: str) -> dict[str, Any]:
        prompt = self.dress(text)
        shape = RequestShape(prompt, max_tokens=1, is_forced=False, temperature=0, top_p=1, seed=0)
        path, body = self._engine.request(shape, self._model)
        body.pop("stream_options", None)
        return await _post(self._client, self._plan, path, {**body, "stream": False})


class _NoSuchPathError(LaunchError):
    """The server has no such endpoint."""


async def _post(
    client: httpx.AsyncClient, plan: LaunchPlan, path: str, body: dict[str, Any]
) -> dict[str, Any]:
    try:
        answer = await ask(
            client,
            "POST",
            plan.base_url + path,
            headers=plan.headers,
            seconds=REQUEST_SECONDS,
            json=body,
        )
        if answer.status_code in (httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED):
            raise _NoSuchPathError(f"{plan.base_url} has no {path}.")
        if answer.status_code != httpx.codes.OK:
            raise _unusable(f"{path} answered HTTP {answer.status_code}: {answer.text[:300]}")
        data = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise _unusable(f"{path} failed: {type(error).__name__} {error}") from error
    return data if isinstance(data, dict) else {}


def _unusable(why: str) -> LaunchError:
    return LaunchError(
        f"The server cannot say how long a prompt is: {why}.",
        step=LaunchStep.PREFLIGHT.value,
        remedy="Check the server's log, and that it speaks the OpenAI API.",
    )
