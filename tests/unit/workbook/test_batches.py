"""Batches by hand: files that Spark must not see before they are whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workbook.batches import post
from workbook.trading import OPENING, Trade


def test_spark_does_not_see_a_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft is in the folder while its time is set; Spark passes over names with a dot."""
    met: list[str] = []
    monkeypatch.setattr(os, "utime", lambda *_: met.extend(f.name for f in tmp_path.iterdir()))
    post(tmp_path, [[Trade(OPENING, "TREE", 1900, 1)]])
    assert met == [".00000.draft"]
    assert [file.name for file in tmp_path.iterdir()] == ["00000.json"]
