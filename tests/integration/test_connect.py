"""Spark Connect: its tests are a run of their own, for one Python has sessions of one kind only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import OVER_CONNECT

ROOT = Path(__file__).parents[2]
TESTS = (
    "tests/connect/over_connect.py",
    "tests/services/test_kafka.py::test_read_with_spark",
    "tests/services/test_nats.py::test_read_with_spark",
)


@pytest.mark.soak
def test_what_runs_over_spark_connect() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS],
        cwd=ROOT,
        env={**os.environ, OVER_CONNECT: "yes", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-5_000:]
