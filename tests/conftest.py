"""What every test shares: asyncio as the only loop, and the rule that CI skips nothing."""

import os
from collections.abc import Generator

import pytest

NO_SKIP = bool(os.environ.get("SLIPSTREAM_NO_SKIP"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The product runs on asyncio alone, so its tests do too."""
    return "asyncio"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure where SLIPSTREAM_NO_SKIP is set: CI has everything installed."""
    report = yield
    if NO_SKIP and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped under SLIPSTREAM_NO_SKIP: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole module that skips itself while it is collected."""
    report = yield
    if NO_SKIP and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} skipped itself under SLIPSTREAM_NO_SKIP"
    return report
