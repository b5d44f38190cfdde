"""A file that is replaced in one step."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tutorial_pkg.core.disk import replace_file


def test_full_disk_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = tmp_path / "id"
    replace_file(file, "old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: '{file}'"):
        replace_file(file, "new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    assert file.stat().st_mode & 0o007 == 0
