"""The disordered copy of the CPU log can be generated again."""

from __future__ import annotations

import runpy
from pathlib import Path

DATA = Path(__file__).parents[2] / "data"
LINES = (DATA / "cpu_log.csv").read_text().splitlines()


def test_disordered_log_is_reproducible() -> None:
    disordered = runpy.run_path(str(DATA / "disorder.py"))["disordered"]
    stored = (DATA / "cpu_log_disordered.csv").read_text().splitlines()
    assert stored == disordered(LINES)
    assert sorted(stored) == sorted(LINES)
    assert disordered(LINES, seed=1) != stored
