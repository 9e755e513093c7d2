"""A real dashboard process, a real Chromium, a visitor who is signed in and notes complaints."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Playwright, StorageState, sync_playwright

from app.store.db import Database
from app.store.tokens import TokenKind
from tests.browser import driver
from tests.integration import web_house
from tests.integration.web_house import Dashboard

PATIENCE_MS = 15_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here drives a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@dataclass
class Visitor:
    """Opens pages and collects what the browser complains about."""

    browser: Browser
    url: str
    state: StorageState
    complaints: list[str] = field(default_factory=list)
    _closers: list[Callable[[], None]] = field(default_factory=list)

    def open(self, path: str, *, width: int = 1280, script: bool = True, **options: Any) -> Page:
        context = self.browser.new_context(
            viewport={"width": width, "height": 900},
            storage_state=self.state,
            java_script_enabled=script,
            **options,
        )
        self._closers.append(context.close)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self._note("error", str(error)))
        page.goto(f"{self.url}{path}")
        return page

    def close(self) -> None:
        for close in self._closers:
            close()

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{kind}: {text}")


@dataclass(frozen=True)
class Elsewhere:
    """Somebody else's site: another origin, serving `folder`."""

    folder: Path
    url: str


@dataclass(frozen=True)
class Races:
    """One race in every state that a page can show."""

    finished: str
    slug: str
    sweep: str
    sweep_slug: str
    failed: str
    failed_slug: str
    running: str
    launching: str
    queued: str


def chromium_path() -> str:
    """The installed Chromium."""
    found = os.environ.get("SLIPSTREAM_CHROMIUM") or shutil.which("chromium")
    if not found:
        pytest.skip("Chromium is not installed: apt-get install chromium, or SLIPSTREAM_CHROMIUM")
    return found


@pytest.fixture(scope="package")
def playwright_api() -> Iterator[Playwright]:
    with sync_playwright() as api:
        yield api


@pytest.fixture(scope="package")
def browser(playwright_api: Playwright) -> Iterator[Browser]:
    opened = playwright_api.chromium.launch(
        executable_path=chromium_path(), args=["--no-sandbox", "--disable-dev-shm-usage"]
    )
    yield opened
    opened.close()


@pytest.fixture(scope="package")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    with web_house.dashboard(tmp_path_factory.mktemp("house")) as served:
        yield served


@pytest.fixture(scope="package")
def db(house: Dashboard) -> Iterator[Database]:
    opened = web_house.open_house(house.folder)
    driver.connect_worker(opened)
    yield opened
    opened.close()


@pytest.fixture(scope="package")
def signed_in(browser: Browser, house: Dashboard, db: Database) -> StorageState:
    """Cookies of a visitor who opened a one-use link."""
    context = browser.new_context()
    context.new_page().goto(f"{house.url}/login?link={web_house.mint(db, TokenKind.LINK)}")
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def visitor(browser: Browser, house: Dashboard, signed_in: StorageState) -> Iterator[Visitor]:
    someone = Visitor(browser, house.url, signed_in)
    yield someone
    someone.close()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    """Another site on another port."""
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Elsewhere(tmp_path, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
        thread.join()


@pytest.fixture(scope="package")
def races(db: Database) -> Races:
    """Runs in every state, driven through the store as a worker would."""
    return driver.every_state(db, Races)
