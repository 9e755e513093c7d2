"""The GPUs that one lane's server uses: sampled while it races,
and empty again after it is gone."""

import asyncio
import time

from app.domain.ticks import GpuSample
from workers.gpus import Gpus
from workers.launchers.base import Server

MEMORY_BACK_SECONDS = 60.0
MEMORY_SLACK_MIB = 256
POLL_SECONDS = 0.2


class LaneGpus:
    """What NVML tells of one lane. Without GPUs everything is None, zero or at once."""

    def __init__(self, gpus: Gpus, *, is_used: bool) -> None:
        self._gpus = gpus
        self._is_used = is_used
        self._indices: tuple[int, ...] | None = ()
        """None: all of them; empty: none."""
        self._hides_ours = True
        self._memory_before = gpus.memory_used_mib()

    def look(self, server: Server) -> None:
        """Find out on which GPUs this server sits.

        In a container the driver may hide whose memory it is: then a rise of the memory in use
        tells that the server is on the GPUs, and all of them are taken for its own.
        """
        if not self._is_used:
            return
        ours = server.pids()
        found = sorted({row.gpu for row in self._gpus.processes() if row.pid in ours})
        self._hides_ours = not found
        if found:
            self._indices = tuple(found)
        elif not self._is_back():
            self._indices = None

    def sample(self) -> GpuSample | None:
        """One reading of the lane's GPUs; None when it uses none."""
        return None if self._indices == () else self._gpus.sample(self._indices)

    def foreign(self, server: Server) -> int:
        """How many processes of others sit on the lane's GPUs; 0 where the driver hides ours."""
        if self._hides_ours or not self._indices:
            return 0
        return len(self._gpus.foreign(server.pids(), self._indices))

    async def wait_memory_back(self) -> bool:
        """Wait until the GPUs hold no more than before the launch; False when they still do."""
        deadline = time.monotonic() + MEMORY_BACK_SECONDS
        while not self._is_back():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    def _is_back(self) -> bool:
        used = self._gpus.memory_used_mib()
        if used is None or self._memory_before is None:
            return True
        return used <= self._memory_before + MEMORY_SLACK_MIB
