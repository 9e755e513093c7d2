"""GPUs as NVML tells, with a stand-in for the driver; and a host that has none."""

from types import SimpleNamespace
from typing import Any

import pytest

from app.domain.ticks import GpuSample
from workers.gpus import MIB, Gpus


class FakeError(Exception):
    """What the driver raises."""


class FakeDriver:
    """Two GPUs; the second does not tell its power."""

    NVMLError = FakeError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, is_there: bool = True) -> None:
        self.is_there = is_there
        self.is_open = False

    def nvmlInit(self) -> None:
        if not self.is_there:
            raise FakeError("Driver Not Loaded")
        self.is_open = True

    def nvmlShutdown(self) -> None:
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.126.09"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 13010

    def nvmlDeviceGetName(self, handle: int) -> str:
        return f"GPU {handle}"

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"uuid-{handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(used=(handle + 1) * 100 * MIB, total=1000 * MIB)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return SimpleNamespace(gpu=50 + 10 * handle, memory=20)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        if handle == 1:
            raise FakeError("Not Supported")
        return 250_500

    def nvmlDeviceGetClockInfo(self, handle: int, which: int) -> int:
        return 1980 - 100 * handle if which == self.NVML_CLOCK_SM else 3201

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        return 40 + handle

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
        return 0x1 if handle == 0 else 0x4 | 0x20

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        return [SimpleNamespace(pid=2**22 + 5 + handle, usedGpuMemory=64 * MIB)]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: int) -> list[Any]:
        raise FakeError("Not Supported")


def test_a_host_without_a_driver_has_no_gpus_and_no_error() -> None:
    with Gpus(FakeDriver(is_there=False)) as gpus:
        assert gpus.devices() == []
        assert gpus.sample() is None
        assert gpus.memory_used_mib() is None
        assert gpus.foreign([]) == []
        assert (gpus.driver, gpus.cuda, gpus.indices) == (None, None, ())


def test_one_gpu_is_read_whole() -> None:
    with Gpus(FakeDriver()) as gpus:
        sample = gpus.sample([0])

    assert sample == GpuSample(
        power_w=250.5,
        memory_mib=100,
        memory_total_mib=1000,
        sm_clock_mhz=1980,
        memory_clock_mhz=3201,
        temperature_c=40,
        utilisation_percent=50,
        memory_bus_percent=20,
        throttle_reasons=(),
    )


def test_several_gpus_read_as_one() -> None:
    with Gpus(FakeDriver()) as gpus:
        sample = gpus.sample()

    assert sample is not None
    assert (sample.memory_mib, sample.sm_clock_mhz, sample.temperature_c) == (300, 1880, 41)
    assert (sample.power_w, sample.utilisation_percent) == (250.5, 55)
    assert sample.throttle_reasons == ("software power cap", "software thermal slowdown")


def test_what_a_gpu_does_not_tell_is_none() -> None:
    with Gpus(FakeDriver()) as gpus:
        sample = gpus.sample([1])

    assert sample is not None
    assert sample.power_w is None


def test_gpus_and_driver_are_described() -> None:
    with Gpus(FakeDriver()) as gpus:
        devices = gpus.devices()

        assert (gpus.driver, gpus.cuda) == ("580.126.09", "13.1")
    assert [device.name for device in devices] == ["GPU 0", "GPU 1"]


def test_processes_that_are_not_ours_are_foreign() -> None:
    with Gpus(FakeDriver()) as gpus:
        foreign = gpus.foreign([2**22 + 5])

    assert [(process.gpu, process.memory_mib) for process in foreign] == [(1, 64)]


@pytest.mark.parametrize("indices", [[], [7]])
def test_gpus_that_do_not_exist_give_no_sample(indices: list[int]) -> None:
    with Gpus(FakeDriver()) as gpus:
        assert gpus.sample(indices) is None


def test_the_driver_is_closed_at_the_end() -> None:
    driver = FakeDriver()

    with Gpus(driver):
        assert driver.is_open

    assert not driver.is_open
