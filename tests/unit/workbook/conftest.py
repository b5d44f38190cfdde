"""One database for all of these tests, and a folder for servers in `.work/`, gone afterwards.

Not under pytest's own temporary folder: that is its owner's alone, and a server that root starts
runs as another user.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tutorial_pkg.core.places import work_dir
from workbook.services import Postgres


@contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(dir=work_dir("tests")))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def database_folder() -> Iterator[Path]:
    with scratch() as folder:
        yield folder / "data"


@pytest.fixture(scope="session")
def uri() -> Iterator[str]:
    """Where an empty PostgreSQL listens."""
    with scratch() as folder, Postgres(folder / "data") as server:
        yield server.uri
