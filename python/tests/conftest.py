"""Fixtures of the tests with torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from workers import Workers


@pytest.fixture(scope="session")
def two() -> Iterator[Workers]:
    """Two processes for all tests."""
    from workers import Workers

    group = Workers(2)
    yield group
    group.close()


@pytest.fixture(scope="session")
def four() -> Iterator[Workers]:
    """Four processes for all tests."""
    from workers import Workers

    group = Workers(4)
    yield group
    group.close()
