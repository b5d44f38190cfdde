"""Drivers made to be killed, whose Spark is up before they are needed: a restart without the wait.

Their scripts get two files as their first arguments, which are for `started`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from spark_connector_tests.query_process import QueryProcess, wait_until
from tutorial_pkg import start_spark
from tutorial_pkg.session.start import spark_home

PROJECT = Path(__file__).parents[2]
SECONDS = 300  # until something that must happen counts as not happening


class SpareDriver(QueryProcess):
    """Starts its Spark now, and its query at `go`; `path` is where its signals and output go."""

    def __init__(self, script: Path, path: Path, *words: object, **env: str) -> None:
        self._ready, self._go = path.with_suffix(".ready"), path.with_suffix(".go")
        left = path.with_suffix(".tmp")  # what a killed one leaves goes with the test's folder
        left.mkdir()
        java = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} -Djava.io.tmpdir={left}"
        env = {"PYTHONPATH": str(PROJECT), "JDK_JAVA_OPTIONS": java, "TMPDIR": str(left), **env}
        output = path.with_suffix(".log")
        super().__init__(script, self._ready, self._go, *words, output=output, env=env)

    def go(self) -> None:
        wait_until(lambda: self._ready.exists() or not self.running, SECONDS, "Spark's start")
        assert self.running, self.output.read_text()
        self._go.touch()


def without_zip() -> dict[str, str]:
    """Return what lets Spark's own scripts start a driver as fast as `start_spark` does."""
    home = spark_home()
    return {"SPARK_HOME": str(home)} if home else {}


def started(**settings: str) -> tuple[SparkSession, list[str]]:
    """In the script, Spark when it is up and told to go; and the other arguments."""
    ready, go, *words = sys.argv[1:]
    spark = start_spark("drill", **{"spark.ui.enabled": "false", **settings})
    Path(ready).touch()
    while not Path(go).exists():
        time.sleep(0.01)
    return spark, words
