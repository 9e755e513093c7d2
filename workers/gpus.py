"""The GPUs of this host as NVML tells. Without an NVIDIA driver there are none, which is no error.

Several GPUs of one lane read as one: power and memory add up, the hottest and slowest count.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import psutil
import pynvml

from app.domain.ticks import GpuSample

MIB = 1 << 20

# Bits of nvmlDeviceGetCurrentClocksEventReasons. Idle (0x1) and applications' own clock settings
# (0x2) are no throttling.
THROTTLE_REASONS: dict[int, str] = {
    0x0000000000000004: "software power cap",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000010: "sync boost",
    0x0000000000000020: "software thermal slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000080: "hardware power brake",
}


@dataclass(frozen=True)
class Gpu:
    """What does not change while we look."""

    index: int
    name: str
    uuid: str
    memory_total_mib: int | None


@dataclass(frozen=True)
class GpuProcess:
    """A process that holds memory on a GPU."""

    gpu: int
    pid: int
    name: str
    memory_mib: int | None


class Gpus:
    """NVML, opened for as long as the `with` block lasts."""

    def __init__(self, nvml: Any = pynvml) -> None:
        self._nvml = nvml
        self._handles: dict[int, Any] = {}
        self._is_open = False

    def __enter__(self) -> Self:
        try:
            self._nvml.nvmlInit()
        except (self._nvml.NVMLError, OSError):
            return self  # no driver, no library, or no permission: no GPUs
        self._is_open = True
        count = self._ask(self._nvml.nvmlDeviceGetCount) or 0
        for index in range(count):
            handle = self._ask(self._nvml.nvmlDeviceGetHandleByIndex, index)
            if handle is not None:
                self._handles[index] = handle
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_open:
            self._ask(self._nvml.nvmlShutdown)
        self._handles.clear()
        self._is_open = False

    @property
    def indices(self) -> tuple[int, ...]:
        """All GPUs of this host."""
        return tuple(self._handles)

    @property
    def driver(self) -> str | None:
        """The driver's version."""
        return _text(self._ask(self._nvml.nvmlSystemGetDriverVersion)) if self._is_open else None

    @property
    def cuda(self) -> str | None:
        """The newest CUDA that the driver speaks."""
        asked = self._nvml.nvmlSystemGetCudaDriverVersion_v2
        number = self._ask(asked) if self._is_open else None
        return None if number is None else f"{number // 1000}.{number % 1000 // 10}"

    def devices(self) -> list[Gpu]:
        """The GPUs; empty without a driver."""
        nvml = self._nvml
        return [
            Gpu(
                index=index,
                name=_text(self._ask(nvml.nvmlDeviceGetName, handle)) or "unknown",
                uuid=_text(self._ask(nvml.nvmlDeviceGetUUID, handle)) or "",
                memory_total_mib=_mib(self._ask(nvml.nvmlDeviceGetMemoryInfo, handle), "total"),
            )
            for index, handle in self._handles.items()
        ]

    def sample(self, indices: Sequence[int] | None = None) -> GpuSample | None:
        """One reading of these GPUs (default: all), as one; None when there are none."""
        readings = [self._read(handle) for handle in self._chosen(indices).values()]
        if not readings:
            return None
        return GpuSample(
            power_w=_over(sum, (r.power_w for r in readings)),
            memory_mib=_over(sum, (r.memory_mib for r in readings)),
            memory_total_mib=_over(sum, (r.memory_total_mib for r in readings)),
            sm_clock_mhz=_over(min, (r.sm_clock_mhz for r in readings)),
            memory_clock_mhz=_over(min, (r.memory_clock_mhz for r in readings)),
            temperature_c=_over(max, (r.temperature_c for r in readings)),
            utilisation_percent=_over(_mean, (r.utilisation_percent for r in readings)),
            memory_bus_percent=_over(_mean, (r.memory_bus_percent for r in readings)),
            throttle_reasons=tuple(
                dict.fromkeys(reason for r in readings for reason in r.throttle_reasons)
            ),
        )

    def memory_used_mib(self, indices: Sequence[int] | None = None) -> int | None:
        """Memory in use on these GPUs, by whomever; None without GPUs."""
        sample = self.sample(indices)
        return None if sample is None else sample.memory_mib

    def processes(self, indices: Sequence[int] | None = None) -> list[GpuProcess]:
        """Who holds memory on these GPUs. In a container the driver may hide others, or itself."""
        found: dict[tuple[int, int], GpuProcess] = {}
        for index, handle in self._chosen(indices).items():
            for asked in (
                self._nvml.nvmlDeviceGetComputeRunningProcesses,
                self._nvml.nvmlDeviceGetGraphicsRunningProcesses,
            ):
                for row in self._ask(asked, handle) or ():
                    memory = _mib(row, "usedGpuMemory")
                    found[index, row.pid] = GpuProcess(index, row.pid, _name(row.pid), memory)
        return list(found.values())

    def foreign(
        self, ours: Iterable[int], indices: Sequence[int] | None = None
    ) -> list[GpuProcess]:
        """Processes on these GPUs that are not among `ours`."""
        known = frozenset(ours)
        return [process for process in self.processes(indices) if process.pid not in known]

    def _chosen(self, indices: Sequence[int] | None) -> dict[int, Any]:
        wanted = self._handles if indices is None else indices
        return {index: self._handles[index] for index in wanted if index in self._handles}

    def _read(self, handle: Any) -> GpuSample:
        nvml = self._nvml
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        rates = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        milliwatts = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        return GpuSample(
            power_w=None if milliwatts is None else milliwatts / 1000,
            memory_mib=_mib(memory, "used"),
            memory_total_mib=_mib(memory, "total"),
            sm_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            memory_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
            temperature_c=self._ask(
                nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU
            ),
            utilisation_percent=None if rates is None else int(rates.gpu),
            memory_bus_percent=None if rates is None else int(rates.memory),
            throttle_reasons=self._throttles(handle),
        )

    def _throttles(self, handle: Any) -> tuple[str, ...]:
        bits = self._ask(self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0
        return tuple(reason for bit, reason in THROTTLE_REASONS.items() if bits & bit)

    def _ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """What NVML says; None where this GPU or driver does not tell."""
        try:
            return function(*args)
        except self._nvml.NVMLError:
            return None


def _over(combine: Callable[[list[Any]], Any], values: Iterable[Any]) -> Any:
    told = [value for value in values if value is not None]
    return combine(told) if told else None


def _mean(values: list[int]) -> int:
    return round(sum(values) / len(values))


def _mib(holder: Any, name: str) -> int | None:
    size_bytes = getattr(holder, name, None)
    return None if size_bytes is None else int(size_bytes) // MIB


def _text(value: Any) -> str | None:
    """Older bindings answer in bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "unknown"
