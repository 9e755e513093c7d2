"""Writes the prompts of heats: the same for every lane, new for every heat,
exactly as long as asked."""

from collections.abc import Sequence

import httpx

from app.domain.errors import LaunchError
from app.domain.recipe import Recipe
from app.domain.states import LaunchStep
from app.store.progress import PlannedHeat
from workers.engines.base import Engine, LaunchPlan, RequestShape
from workers.prompts import library
from workers.tokenizing import ServerTokenizer, UsageMeter


class Writer:
    """Prompts for one lane's server. Paired: they depend on run, cell and ordinal,
    never on the lane."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        plan: LaunchPlan,
        model: str,
        engine: Engine,
        recipe: Recipe,
        run_id: str,
        lane: str,
    ) -> None:
        self._tokenizer = ServerTokenizer(client, plan, model)
        self._usage = UsageMeter(client, plan, model, engine)
        self._recipe = recipe
        self._tokenizes: bool | None = None
        self._fits: library.Fits = {}
        self._is_ours = plan.proves_itself
        # Two lanes may attach to one server: its cache must not know the second lane's prompts.
        self._owner = run_id if self._is_ours else f"{run_id}/{lane}"

    async def shapes(self, heat: PlannedHeat) -> list[RequestShape]:
        """One request per stream of this heat. A second attempt gets a new salt."""
        salt = library.salt_of(self._owner, heat.position, heat.ordinal, heat.attempt)
        return [
            self._shape(prompt)
            for prompt in await self._build(
                heat.workload, heat.context, heat.concurrency, salt, is_warmup=False
            )
        ]

    async def warm_shapes(self, context: int, streams: int, name: str) -> list[RequestShape]:
        """Requests that are never measured."""
        salt = library.salt_of(self._owner, "warm", context, streams, name)
        workload = self._recipe.matrix.workloads[0]
        prompts = await self._build(workload, context, streams, salt, is_warmup=True)
        return [self._shape(prompt) for prompt in prompts]

    async def check_lengths(self, heats: Sequence[PlannedHeat], max_model_len: int | None) -> None:
        """LaunchError before anything is measured when prompt + answer exceed the server's
        context."""
        if max_model_len is None or not heats:
            return
        longest = max(heats, key=lambda heat: heat.context)
        answer = self._recipe.decode.max_tokens
        length = longest.context
        if length + answer <= max_model_len:
            prompts = await self._build(longest.workload, length, 1, "check", is_warmup=False)
            length = prompts[0].tokens or length
        if length + answer > max_model_len:
            raise LaunchError(
                f"{length} tokens of prompt + {answer} of answer exceed the server's context "
                f"of {max_model_len} tokens.",
                step=LaunchStep.PREFLIGHT.value,
                remedy="Raise args.max-model-len, or lower matrix.contexts or decode.max_tokens.",
            )

    async def _build(
        self, workload: str, context: int, streams: int, salt: str, *, is_warmup: bool
    ) -> list[library.Prompt]:
        if self._tokenizes is None:
            if not self._is_ours:
                await self._usage.find_dialect()
            self._tokenizes = not self._usage.is_chat and await self._tokenizer.is_there()
        try:
            return await self._build_for(workload, context, streams, salt, is_warmup=is_warmup)
        except ValueError as error:
            raise LaunchError(
                f"No prompt of {context} tokens can be made: {error}.",
                step=LaunchStep.PREFLIGHT.value,
                remedy="Race context 0, or a server that tokenizes or reports usage.",
            ) from error

    async def _build_for(
        self, workload: str, context: int, streams: int, salt: str, *, is_warmup: bool
    ) -> list[library.Prompt]:
        if self._tokenizes:
            return await library.build(
                workload, context, streams, salt, self._tokenizer, is_warmup=is_warmup
            )
        return await library.build_measured(
            workload,
            context,
            streams,
            salt,
            self._usage.measure,
            is_warmup=is_warmup,
            fits=self._fits,
        )

    def _shape(self, prompt: library.Prompt) -> RequestShape:
        decode = self._recipe.decode
        content = prompt.content
        return RequestShape(
            prompt=self._usage.dress(content) if isinstance(content, str) else content,
            max_tokens=decode.max_tokens,
            is_forced=decode.mode == "forced",
            temperature=decode.temperature,
            top_p=decode.top_p,
            seed=decode.seed,
        )
