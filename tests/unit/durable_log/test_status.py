"""The status file is as private as the log that it is about."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tutorial_pkg.durable_log.group import LogGroup
from tutorial_pkg.durable_log.status import StatusPublisher, read_status


@dataclass
class Status:
    failure: str


def test_status_file_is_private(tmp_path: Path) -> None:
    """A path in a user's error, or a row that could not be read, may be a secret."""
    before, statuses = os.umask(0), {1: Status("no row for jane@example.org")}
    try:
        with closing(LogGroup(tmp_path, [1], "log")) as logs:
            publisher = StatusPublisher(logs, "logs", lambda: statuses)
            publisher.start()
            publisher.stop()
            assert read_status(tmp_path, "logs", Status) == (tmp_path, os.getpid(), statuses, [])
    finally:
        os.umask(before)
    assert (tmp_path / "status.json").stat().st_mode & 0o777 == 0o640
    assert read_status(tmp_path, "logs", Status) == (tmp_path, None, statuses, [])
