"""Where local state may go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tutorial_pkg.core import places

ME, MALLORY, ROOT = 1000, 1001, 0


@pytest.mark.parametrize(
    ("project", "work", "trusted"),
    [
        (ME, ME, True),
        (ME, ROOT, True),
        (ROOT, ME, True),  # in the folder for temporary files
        (MALLORY, MALLORY, True),  # whoever runs Mallory's project trusts Mallory
        (ROOT, MALLORY, False),
        (ME, MALLORY, False),
    ],
)
def test_a_folder_that_a_stranger_has_made_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: int, work: int, trusted: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: ME)
    monkeypatch.setattr(places, "_owner", {tmp_path: project, tmp_path / ".work": work}.get)
    if trusted:
        assert places.work_dir("logs") == tmp_path / ".work" / "logs"
        return
    with pytest.raises(PermissionError, match=r"\.work belongs to another user, who could put pro"):
        places.work_dir("logs")
