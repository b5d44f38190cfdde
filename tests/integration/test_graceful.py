"""Ctrl-C on a job that runs in a terminal: every process of the job gets the signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_connector_tests.query_process import wait_until
from tests.faults.spare_driver import PROJECT, SECONDS, without_zip
from tutorial_pkg.session.java import archive_options, find_java

JOB = """
import sys
import time

from tutorial_pkg import run_until_signal, start_spark


class Announced:
    \"\"\"A query that says when it is waited for: from then on signals are expected.\"\"\"

    def __init__(self, query):
        self._query = query

    @property
    def isActive(self):
        print("Waiting", flush=True)
        return self._query.isActive

    def __getattr__(self, name):
        return getattr(self._query, name)


folder = sys.argv[1]
spark = start_spark("interrupted")
lines = spark.readStream.format("file_lines").load(f"{folder}/in")
writer = lines.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
query = writer.start()
while query.isActive and not query.recentProgress:
    time.sleep(0.05)
print("Stopped" if run_until_signal(Announced(query)) else "Ended", "after its batch", flush=True)
spark.stop()
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[subprocess.Popen]:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "lines.txt").write_text("one\ntwo\n")
    (tmp_path / "job.py").write_text(JOB)
    java = " ".join(["-XX:+UseSerialGC", *archive_options(find_java())])  # starts faster
    ours = {"JAVA_HOME": str(find_java().home), "PYTHONPATH": str(PROJECT), **without_zip()}
    with (tmp_path / "job.log").open("wb") as log:
        submit = Path(sys.executable).with_name("spark-submit")
        words = ["--master", "local[1]", tmp_path / "job.py", tmp_path]
        running = subprocess.Popen(
            [submit, *words],
            env={**os.environ, **ours, "SPARK_SUBMIT_OPTS": java, "PYSPARK_PYTHON": sys.executable},
            stdout=log,
            stderr=log,
            start_new_session=True,  # its own process group, as in a terminal
            preexec_fn=not_in_the_background,
        )
    yield running
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def not_in_the_background() -> None:
    """A shell makes what it starts with `&` ignore Ctrl-C, and that is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_a_job_after_its_batch(job: subprocess.Popen, tmp_path: Path) -> None:
    def said() -> str:
        return (tmp_path / "job.log").read_text(errors="replace")

    wait_until(lambda: "Waiting" in said() or job.poll() is not None, SECONDS, "a query that runs")
    os.killpg(job.pid, signal.SIGINT)
    assert job.wait(SECONDS) == 0, said()[-6000:]
    assert "Stopped after its batch" in said()
