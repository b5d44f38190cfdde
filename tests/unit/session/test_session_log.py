"""Which logs of Spark go when there are too many."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tutorial_pkg.session import start as session

NOBODY = 1 << 22  # the least number that no process of Linux has


def test_the_oldest_go_but_none_that_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "work_dir", lambda *_: tmp_path)
    in_use = tmp_path / f"spark-{os.getppid()}.log"
    ended = [tmp_path / f"spark-{NOBODY + n}.log" for n in range(session.KEPT_LOGS + 2)]
    for age, log in enumerate([in_use, *ended]):
        log.touch()
        os.utime(log, (age, age))
    assert session._open_log() == tmp_path / f"spark-{os.getpid()}.log"
    assert set(tmp_path.iterdir()) == {in_use, *ended[2:]}


def test_a_log_that_another_start_removes_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "work_dir", lambda name: tmp_path)
    ended = [tmp_path / f"spark-{NOBODY + n}.log" for n in range(session.KEPT_LOGS + 2)]
    for log in ended:
        log.touch()
    stat = Path.stat

    def removed_first(file: Path, **more: bool) -> os.stat_result:
        found = stat(file, **more)  # what `exists` asks, too
        if file in ended:
            file.unlink()
        return found

    monkeypatch.setattr(Path, "stat", removed_first)
    assert session._open_log() == tmp_path / f"spark-{os.getpid()}.log"
