"""The notebooks' data: its description, and that it can be generated."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

DATA = Path(__file__).parents[2] / "data"
CPU_LOG_LINE = re.compile(r"\d{13},[01]\.\d{6},SimpleEvent\(timestamp=[\d:.]{12}, sequence=\d+\)")
LINES = (DATA / "cpu_log.csv").read_text().splitlines()


def millis(line: str) -> int:
    return int(line.split(",")[0])


def test_log_was_written_by_our_sink() -> None:
    assert all(CPU_LOG_LINE.fullmatch(line) for line in LINES)
    assert [millis(line) for line in LINES] == sorted(millis(line) for line in LINES)
    assert millis(LINES[-1]) - millis(LINES[0]) > 3 * 60_000
    numbers = sorted(int(line.split("sequence=")[1].rstrip(")")) for line in LINES)
    assert numbers == list(range(len(LINES)))


def test_disordered_log_is_reproducible() -> None:
    disordered = runpy.run_path(str(DATA / "disorder.py"))["disordered"]
    stored = (DATA / "cpu_log_disordered.csv").read_text().splitlines()
    assert stored == disordered(LINES)
    assert sorted(stored) == sorted(LINES)
    assert disordered(LINES, seed=1) != stored


def test_every_file_is_explained() -> None:
    text = (DATA / "README.md").read_text()
    for file in DATA.iterdir():
        if file.is_file() and file.name != "README.md":
            assert f"`{file.name}`" in text, file.name
