"""Fixtures of the acceptance tests."""

from pathlib import Path

import pytest

from tests.acceptance.house import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    """An empty house."""
    return House(tmp_path)
