"""Folders for servers in `.work/`, gone afterwards.

pytest's own temporary folder is its owner's alone, and a server that root starts runs as another
user.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tutorial_pkg.core.places import work_dir


@pytest.fixture
def database_folder() -> Iterator[Path]:
    with TemporaryDirectory(dir=work_dir("tests")) as folder:
        yield Path(folder, "data")
