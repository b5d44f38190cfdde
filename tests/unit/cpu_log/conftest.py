"""A directory to which tests publish."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cpu_log.committing import Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)
