"""A process of a lesson ends with the lesson."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from spark_connector_tests.query_process import QueryProcess, wait_for_end, wait_until

SLEEPER = """
import subprocess, sys, time
from pathlib import Path
from spark_connector_tests.query_process import end_with_parent
end_with_parent()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
Path(sys.argv[1]).with_suffix(".draft").write_text(f"{child.pid}")
Path(sys.argv[1]).with_suffix(".draft").rename(sys.argv[1])
time.sleep(600)
"""
NOTEBOOK = """
import sys, time
from pathlib import Path
from spark_connector_tests.query_process import QueryProcess
process = QueryProcess(Path(sys.argv[1]), sys.argv[2], output=Path(sys.argv[3]))
Path(sys.argv[2]).with_suffix(".driver").write_text(f"{process.pid}")
time.sleep(600)
"""
THREAD_ALONE = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "sleeper.py"
    path.write_text(SLEEPER)
    return path


def pid_in(file: Path) -> int:
    wait_until(file.exists, 60, "the script's start")
    return int(file.read_text())


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_close_all_ends_open_processes(script: Path, tmp_path: Path) -> None:
    process = QueryProcess(script, tmp_path / "ready", output=tmp_path / "log")
    child = pid_in(tmp_path / "ready")
    QueryProcess.close_all()
    assert not process.running
    assert gone(child)
    process.close()  # again


def test_processes_end_with_the_notebook(script: Path, tmp_path: Path) -> None:
    ready, log = tmp_path / "ready", tmp_path / "log"
    notebook = subprocess.Popen([sys.executable, "-c", NOTEBOOK, script, ready, log])
    child, driver = pid_in(ready), pid_in(ready.with_suffix(".driver"))
    notebook.kill()
    notebook.wait()
    wait_until(lambda: gone(driver) and gone(child), 60, "the end of both processes")


def test_zombie_counts_as_ended() -> None:
    """In a container without an init, a zombie stays forever."""
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(sleep) as killed, subprocess.Popen(sleep) as sleeper:
        processes = [psutil.Process(process.pid) for process in (killed, sleeper)]
        try:
            killed.kill()  # a zombie, since nothing waits for it
            assert wait_for_end(processes, 0.5) == [processes[1]]
            assert processes[0].status() == psutil.STATUS_ZOMBIE
        finally:
            sleeper.kill()


def test_zombie_with_a_thread_still_runs() -> None:
    """It still has its files and ports; after `kill -9`, that takes a moment."""
    with subprocess.Popen([sys.executable, "-c", THREAD_ALONE]) as started:
        process = psutil.Process(started.pid)
        try:
            wait_until(
                lambda: process.status() == psutil.STATUS_ZOMBIE, 60, "its main thread's end"
            )
            assert wait_for_end([process], 0.5) == [process]
        finally:
            started.kill()
