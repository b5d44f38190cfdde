"""start_spark on real Spark: one session, a quiet console, readable errors."""

from __future__ import annotations

import subprocess
import sys
import threading

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from tutorial_pkg import last_error, register, start_spark


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


def test_spark_error_is_one_line(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.sql("SELECT nope")
    assert last_error(caught.value).startswith("AnalysisException: [UNRESOLVED_COLUMN")
    assert "\n" not in last_error(caught.value)
    assert capfd.readouterr() == ("", "")


KILLED = """
import os
import signal

from pyspark import SparkContext

from tutorial_pkg import start_spark

start_spark()
jvm = SparkContext._gateway.proc
os.kill(jvm.pid, signal.SIGKILL)
jvm.wait()
print(start_spark().range(3).count())
"""


@pytest.mark.soak
def test_killed_jvm_is_replaced() -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["3"], done.stderr[-2000:]
