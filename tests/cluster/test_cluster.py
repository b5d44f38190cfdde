"""A real standalone cluster that loses a worker: nothing lost, nothing twice, nothing left."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

LINES = 20_000


@pytest.mark.soak  # test_kills kills a worker in every run
def test_killed_worker_loses_no_line(tmp_path: Path) -> None:
    """Run it in its own process, as `make cluster-demo` does, since this one may have a session."""
    folder = tmp_path / "cluster"
    words = ["cluster-demo", "--lines", str(LINES), "--folder", str(folder)]
    output = tmp_path / "output"
    with output.open("w") as file:
        command = [sys.executable, "-m", "workbook", *words]
        done = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, timeout=600)
    said = output.read_text()
    assert done.returncode == 0, said
    assert f"sent {LINES:,} · confirmed {LINES:,} · published {LINES:,}" in said
    assert "every line once: yes" in said
    by_worker = re.findall(r"(worker-\d|elsewhere) [\d,]+", said)
    assert by_worker == ["worker-1", "worker-2"], f"both should have written: {said}"
    assert not list((folder / "cpu_log" / "_cpu_log" / "staged").iterdir())
    started = [p for p in psutil.process_iter(["cmdline"]) if str(folder) in _words(p)]
    assert started == []


def _words(process: psutil.Process) -> str:
    return " ".join(process.info["cmdline"] or [])
