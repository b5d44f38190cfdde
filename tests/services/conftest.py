"""Real servers for these tests: at most one at a time, each test with a database of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.services.databases import drop_database, new_database
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.processes.services import Postgres, start_postgres


@pytest.fixture(scope="module")
def service_folder() -> Iterator[Path]:
    """In `.work/`, as a server that root starts runs as another user."""
    folder = Path(tempfile.mkdtemp(dir=work_dir("tests")))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def postgres(service_folder: Path) -> Iterator[Postgres]:
    with start_postgres(
        service_folder / "postgres", max_connections="40", max_replication_slots="40"
    ) as server:
        yield server


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    """An empty database."""
    where = new_database(postgres)
    yield where
    drop_database(postgres, where)


@pytest.fixture
def database(url: str) -> Iterator[psycopg.Connection]:
    """A connection to it that commits each statement."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
