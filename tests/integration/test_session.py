"""start_spark on real Spark: one session, a quiet console, readable errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from tutorial_pkg import last_error, register, start_spark
from tutorial_pkg.core.places import work_dir


@pytest.mark.parametrize("cores", [0, -1, 1.5, "2", True])
def test_wrong_cores_are_an_error(cores: object) -> None:
    with pytest.raises(ValueError, match="`cores`"):
        start_spark(cores=cores)


def test_second_call_returns_the_session(spark: SparkSession) -> None:
    found = [start_spark()]
    thread = threading.Thread(target=lambda: found.append(start_spark("another name", cores=1)))
    thread.start()
    thread.join()
    assert found == [spark, spark]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_second_master_is_an_error(spark: SparkSession) -> None:
    assert start_spark(**{"spark.master": "local[2]"}) is spark
    with pytest.raises(RuntimeError, match=r"session on local\[2\].* spark://other"):
        start_spark(**{"spark.master": "spark://other:7077"})


def test_workers_use_the_installed_pyspark(spark: SparkSession) -> None:
    where = udf(lambda _: __import__("pyspark").__file__)
    assert spark.range(1).select(where("id")).first()[0] == pyspark.__file__


def test_ml_functions_come_with_its_import(spark: SparkSession) -> None:
    from pyspark.ml.functions import array_to_vector, vector_to_array

    register(spark)
    vectors = spark.createDataFrame([([1.0, 2.0],)], ["a"]).select(array_to_vector("a").alias("v"))
    assert vectors.select(vector_to_array("v")).first() == ([1.0, 2.0],)


TWO_SESSIONS = """
from pyspark.sql.streaming import StreamingQueryListener
from spark_connector_tests.query_process import wait_until

class Starts(StreamingQueryListener):
    seen = 0
    def onQueryStarted(self, event):
        self.seen += 1
    def onQueryProgress(self, event):
        pass
    onQueryTerminated = onQueryProgress

starts = Starts()
for settings in ({}, {"spark.driver.memory": "700m"}):
    spark = start_spark(**{"spark.ui.enabled": "false"}, **settings)
    print(spark.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory() >> 20)
    spark.streams.addListener(starts)
    rows = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
    rows = rows.mapInArrow(lambda batches: batches, rows.schema)
    query = rows.writeStream.format("memory").queryName("rows").start()
    wait_until(lambda: query.status["isTriggerActive"], 120, "a batch")
    query.stop()
    spark.stop()
print(starts.seen)
"""


@pytest.mark.soak
def test_new_settings_get_a_new_quiet_jvm(tmp_path: Path) -> None:
    """A listener of the first session works in the second, and nothing is printed."""
    done = run_python(TWO_SESSIONS, tmp_path, "--driver-memory 600m pyspark-shell")
    assert (done.returncode, done.stderr) == (0, "")
    greeting, first, _, second, starts = done.stdout.splitlines()
    assert greeting.startswith(f"Spark {pyspark.__version__} runs on 2 cores. UI: off Log: ")
    assert (tmp_path / greeting.split("Log: ")[1]).is_file()
    assert 500 < int(first) <= 600 < int(second) <= 700
    assert starts == "2"


def run_python(code: str, folder: Path, submit: str) -> subprocess.CompletedProcess[str]:
    """Run a new process in `folder` with `submit` as its PYSPARK_SUBMIT_ARGS."""
    (folder / ".work").mkdir()
    (folder / ".work" / "java").symlink_to(work_dir("java"))  # the class archive
    return subprocess.run(
        [sys.executable, "-c", f"from tutorial_pkg import start_spark\n{code}"],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=folder,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": submit, "PYTHONPATH": str(folder)},
    )


def test_spark_error_is_one_line(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.sql("SELECT nope")
    assert last_error(caught.value).startswith("AnalysisException: [UNRESOLVED_COLUMN")
    assert "\n" not in last_error(caught.value)
    assert capfd.readouterr() == ("", "")
