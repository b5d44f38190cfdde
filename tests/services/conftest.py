"""Real servers for these tests: at most one at a time, and a new database for each test."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import psycopg
import pytest

from tests.services.databases import UNUSUAL, drop_database, new_database
from tests.services.secrets import SECRET
from tutorial_pkg.core.places import work_dir
from workbook.services import Postgres, ServerProcess, start_postgres, start_s3

# Spark's workers have the environment with which Spark was started: before any server is.
KEYS = {"AWS_ACCESS_KEY_ID": "lake", "AWS_SECRET_ACCESS_KEY": SECRET}
os.environ |= KEYS


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
def unusual_url(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database in LATIN1 where nothing is set as we need it, nor in the environment."""
    where = new_database(postgres, "ENCODING LATIN1 LOCALE 'C' TEMPLATE template0")
    with psycopg.connect(where, autocommit=True) as database:
        name = database.info.dbname
        targets = cycle((f"DATABASE {name}", f"ROLE CURRENT_USER IN DATABASE {name}"))
        for target, (setting, value) in zip(targets, UNUSUAL.items(), strict=False):
            database.execute(f"ALTER {target} SET {setting} = '{value}'".encode())
    given = {"CLIENTENCODING": "LATIN1", "TZ": "Asia/Tokyo", "DATESTYLE": "SQL"}
    given["OPTIONS"] = "-c IntervalStyle=sql_standard -c bytea_output=escape"
    for name, value in given.items():
        monkeypatch.setenv(f"PG{name}", value)
    yield where
    drop_database(postgres, where)


@pytest.fixture
def database(url: str) -> Iterator[psycopg.Connection]:
    """A connection to it that commits each statement."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def s3(service_folder: Path) -> Iterator[ServerProcess]:
    with start_s3(service_folder / "s3", KEYS) as server:
        yield server
