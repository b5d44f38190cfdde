"""Spark Connect: its tests are a run of their own, for one Python has sessions of one kind only."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import OVER_CONNECT
from tests.integration.test_readme import example
from tutorial_pkg.core.places import is_free
from tutorial_pkg.core.waiting import wait_until
from tutorial_pkg.session.java import find_java

ROOT = Path(__file__).parents[2]
TESTS = "tests/connect/over_connect.py"
SHORT = ("--tb=short", "--show-capture=no")  # without the lines of its JVM
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SECONDS = 180


@pytest.mark.soak
def test_formats_work_over_spark_connect() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SHORT, TESTS],
        cwd=ROOT,
        env={**os.environ, OVER_CONNECT: "yes", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-5_000:]


@pytest.mark.soak
def test_documented_lines_use_a_running_server(
    tmp_path: Path, free_ports: Callable[[int], int]
) -> None:
    (tmp_path / "in.txt").write_text("one\ntwo\nthree\n")
    port = free_ports(1)
    settings = {"spark.connect.grpc.binding.port": port, "spark.ui.enabled": "false"}
    given = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    command = [Path(sys.executable).with_name("spark-submit"), "--master", "local[2]", *given]
    python = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(
        [*command, "--class", SERVER, "spark-internal"],
        env={**os.environ, "JAVA_HOME": str(find_java().home), **python},
        stderr=(tmp_path / "server.log").open("w"),
    )
    try:
        wait_until(lambda: server.poll() is not None or not is_free(port), SECONDS, "the server")
        lines = example("builder.remote", "docs/connect.md").replace("15002", str(port))
        job = f"{lines}print(spark.read.format('file_lines').load('{tmp_path}/in.txt').count())"
        told = subprocess.run(
            [sys.executable, "-c", job],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
            timeout=SECONDS,
        )
        assert told.stdout == "3\n", (tmp_path / "server.log").read_text()
    finally:
        server.terminate()
        server.wait()
