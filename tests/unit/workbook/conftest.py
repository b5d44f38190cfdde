"""One database for all of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.processes.conftest import scratch
from tutorial_pkg.processes.services import Postgres


@pytest.fixture(scope="session")
def uri() -> Iterator[str]:
    """Where an empty PostgreSQL listens."""
    with scratch() as folder, Postgres(folder / "data") as server:
        yield server.uri
