"""One database for all of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.kit.conftest import database_folder as database_folder
from tests.unit.kit.conftest import scratch
from workbook.services import Postgres


@pytest.fixture(scope="session")
def uri() -> Iterator[str]:
    """Where an empty PostgreSQL listens."""
    with scratch() as folder, Postgres(folder / "data") as server:
        yield server.uri
