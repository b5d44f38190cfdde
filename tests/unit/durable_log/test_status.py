"""The status file is as private as the log that it is about."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tutorial_pkg.durable_log.status import StatusFile


@dataclass
class Status:
    failure: str


def test_status_file_is_private(tmp_path: Path) -> None:
    """A path in a user's error, or a row that could not be read, may be a secret."""
    before, file = os.umask(0), StatusFile(tmp_path, "logs", Status)
    try:
        file.write({1: Status("no row for jane@example.org")}, [])
    finally:
        os.umask(before)
    assert (tmp_path / "status.json").stat().st_mode & 0o777 == 0o640
    assert file.read() == (None, {1: Status("no row for jane@example.org")}, [])
