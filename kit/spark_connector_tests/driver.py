"""Spark drivers made to be killed: each waits for a query, and runs it until it dies."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyspark import SparkConf, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_connector_tests.errors import last_error
from spark_connector_tests.promise import failure
from spark_connector_tests.queries import jvm_of
from spark_connector_tests.query_process import QueryProcess, end_with_parent, wait_until

_SECONDS = 120  # for Spark to start, on a busy machine
_SHOWN = 2000
# A driver doesn't live long enough for the JVM's second compiler to pay off.
_JAVA = "-XX:TieredStopAtLevel=1"
_JVM = ("SPARK_HOME", "SPARK_SUBMIT_OPTS")  # variables with which a JVM may start faster
# Settings that belong to the examining session alone.
_OWN = ("spark.app.", "spark.driver.port", "spark.executor.id", "spark.ui.")

NewSession = Callable[[], SparkSession]


class Driver(QueryProcess):
    """A driver with a Spark like the examining one, which starts now; `go` starts the query."""

    def __init__(
        self, folder: Path, spark: SparkSession, session: NewSession | None = None
    ) -> None:
        folder.mkdir()
        conf = spark.sparkContext.getConf().getAll()
        self._ready, self._query, self._error = (folder / n for n in ("ready", "query", "error"))
        settings = [(key, value) for key, value in conf if not key.startswith(_OWN)]
        (folder / "conf").write_bytes(cloudpickle.dumps((settings, session)))
        java = f'{_JAVA} "-Djava.io.tmpdir={folder}"'  # a killed JVM's files go with the folder
        env = {"PYTHONPATH": os.pathsep.join(sys.path), "JDK_JAVA_OPTIONS": java}
        env["TMPDIR"] = str(folder)
        if session is None:  # else it chooses its own
            env |= {name: text for name, text in jvm_of(spark).environ().items() if name in _JVM}
        super().__init__(Path(__file__), folder, output=folder / "output", env=env)

    def go(self, query: Any) -> None:
        """Have the driver call `query.start(spark)`; the query is sent pickled."""
        wait_until(lambda: self._ready.exists() or not self.running, _SECONDS, "a driver's start")
        draft = self._query.with_suffix(".draft")
        draft.write_bytes(cloudpickle.dumps(query))
        draft.rename(self._query)

    def check(self) -> None:
        """Raise `Broken` if the query has ended."""
        if not self.running:
            error = self._error if self._error.exists() else self.output
            text = error.read_text(errors="replace")
            raise failure(f"the query in its own driver ended: {text[-_SHOWN:]}", text)


class Drivers:
    """A supply of drivers: the next one's Spark starts while other trials run."""

    def __init__(
        self, spark: SparkSession, folder: Path, session: NewSession | None = None
    ) -> None:
        self._spark, self._session = spark, session
        self._folder, self._count = folder, 0
        self._spare: Driver | None = None

    def prepare(self) -> None:
        """Start a driver now that is taken later."""
        if self._spare is None:
            self._count += 1
            folder = self._folder / f"driver-{self._count}"
            self._spare = Driver(folder, self._spark, self._session)

    def take(self) -> Driver:
        """Return a driver; its Spark is starting, or up."""
        self.prepare()
        driver, self._spare = self._spare, None
        assert driver is not None
        return driver

    def close(self) -> None:
        """End the driver that was not taken."""
        if self._spare is not None:
            self._spare.close()


def main(folder: Path) -> None:
    """Start Spark in the driver's process, wait for the query, and run it."""
    end_with_parent()
    settings, session = cloudpickle.loads((folder / "conf").read_bytes())
    spark = session() if session else _plain_session(settings, folder)
    (folder / "ready").touch()
    while not (folder / "query").exists():
        time.sleep(0.01)
    try:
        cloudpickle.loads((folder / "query").read_bytes()).start(spark).awaitTermination()
    except PySparkException as error:
        (folder / "error").write_text(last_error(error) or str(error))
        raise


def _plain_session(settings: Iterable[tuple[str, str]], folder: Path) -> SparkSession:
    conf = SparkConf(loadDefaults=False).setAll(list(settings))
    conf.set("spark.ui.enabled", "false").set("spark.app.name", "made to be killed")
    conf.set("spark.local.dir", str(folder))
    return SparkSession.builder.config(conf=conf).getOrCreate()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
