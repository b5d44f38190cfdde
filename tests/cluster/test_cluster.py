"""A real standalone cluster that loses a worker: nothing lost, nothing twice, nothing left."""

from __future__ import annotations

from pathlib import Path

import psutil

from tutorial_pkg.workbook.cluster_demo import run_cluster_demo

LINES = 20_000


def test_every_line_is_published_once_though_a_worker_dies(tmp_path: Path) -> None:
    account = run_cluster_demo(LINES, tmp_path / "cluster")
    assert account.exact, str(account)
    assert (account.sent, account.confirmed) == (LINES, LINES)
    assert set(account.by_worker) == {"worker-1", "worker-2"}, "both should have written"
    assert not list((tmp_path / "cluster" / "cpu_log" / "_cpu_log" / "staged").iterdir())
    started = [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in _words(p)]
    assert started == []


def _words(process: psutil.Process) -> str:
    return " ".join(process.info["cmdline"] or [])
