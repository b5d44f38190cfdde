"""start_spark on real Spark: one session, a quiet console, readable errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.functions import udf
from pyspark.sql.types import StructType

from tests.since import since_4_1
from tutorial_pkg import last_error, register, start_spark
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.core.worker import CORES, cores
from tutorial_pkg.session.cluster import note_cores


class CoresDataSource(DataSource):
    """One row: the cores that the process knows of in which the read is planned."""

    @classmethod
    def name(cls) -> str:
        return "cores"

    def schema(self) -> str:
        return "cores INT"

    def reader(self, schema: StructType) -> DataSourceReader:
        return CoresReader()


class CoresReader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(cores())]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)


@pytest.mark.parametrize("cores", [0, -1, 1.5, "2", True])
def test_a_wrong_number_of_cores_is_refused(cores: object) -> None:
    with pytest.raises(ValueError, match="`cores` must be a whole number of at least 1, got "):
        start_spark(cores=cores)


def test_a_second_call_returns_the_same_session_in_any_thread(spark: SparkSession) -> None:
    found = [start_spark()]
    thread = threading.Thread(target=lambda: found.append(start_spark("another name", cores=1)))
    thread.start()
    thread.join()
    assert found == [spark, spark]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_second_master_is_refused(spark: SparkSession) -> None:
    assert start_spark(**{"spark.master": "local[2]"}) is spark
    with pytest.raises(RuntimeError, match=r"session on local\[2\] runs .* none on spark://other"):
        start_spark(**{"spark.master": "spark://other:7077"})


def test_what_plans_a_source_knows_the_cores_of_the_session(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven, which no machine has by chance; what runs elsewhere gets it by its environment."""
    context = spark.sparkContext
    assert context.environment[CORES] == str(context.defaultParallelism)
    monkeypatch.setitem(context.environment, CORES, "to be noted anew")
    with monkeypatch.context() as patched:
        patched.setattr(SparkContext, "defaultParallelism", 7)
        note_cores(context)
    spark.dataSource.register(CoresDataSource)
    assert spark.read.format("cores").load().first().cores == 7


@since_4_1
def test_python_talks_over_unix_sockets_in_a_folder_of_its_own(spark: SparkSession) -> None:
    spark.range(3).mapInArrow(lambda batches: batches, "id long").collect()
    folder = Path(spark.conf.get("spark.python.unix.domain.socket.dir"))
    assert folder.name.startswith("sockets-")
    assert [file for file in folder.iterdir() if file.is_socket()]


def test_workers_use_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    """With its bytecode: the one in Spark's zip would be compiled by each process anew."""
    where = udf(lambda _: __import__("pyspark").__file__)
    assert spark.range(1).select(where("id")).first()[0] == pyspark.__file__


def test_functions_of_the_ml_library_come_with_its_import(spark: SparkSession) -> None:
    from pyspark.ml.functions import array_to_vector, vector_to_array

    register(spark)
    vectors = spark.createDataFrame([([1.0, 2.0],)], ["a"]).select(array_to_vector("a").alias("v"))
    assert vectors.select(vector_to_array("v")).first() == ([1.0, 2.0],)


BROUGHT = """
from pyspark.sql.datasource import DataSource, DataSourceReader

class DefaultSource(DataSource, DataSourceReader):
    name = classmethod(lambda cls: "brought")
    schema = lambda self: "number int"
    reader = lambda self, schema: self
    read = lambda self, partition: iter([(42,)])
"""

MEMORY = "print(spark.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory() >> 20)"


TWO_SESSIONS = f"""
from pyspark.sql.streaming import StreamingQueryListener
from spark_connector_tests.query_process import wait_until

class Starts(StreamingQueryListener):
    seen = 0
    def onQueryStarted(self, event):
        self.seen += 1
    def onQueryProgress(self, event):
        pass
    onQueryIdle = onQueryTerminated = onQueryProgress

starts = Starts()
for settings in ({{}}, {{"spark.driver.memory": "700m"}}):
    spark = start_spark(**{{"spark.ui.enabled": "false"}}, **settings)
    {MEMORY}
    spark.streams.addListener(starts)
    for number in range(2):
        rows = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
        rows = rows.mapInArrow(lambda batches: batches, rows.schema)
        query = rows.writeStream.format("memory").queryName(f"q{{number}}").start()
        wait_until(lambda: query.status["isTriggerActive"], 120, "a batch")
        query.stop()
    print(spark.read.format("brought").load().first().number)
    spark.stop()
print(starts.seen)
"""


@pytest.mark.soak
def test_two_sessions_in_a_row_with_other_settings_are_quiet(tmp_path: Path) -> None:
    """Queries that are stopped in mid-batch leave no byte on stderr.

    The caller comes before the environment in the JVM, too, and a session that wants another
    memory than the one before gets another JVM. There a listener of the first session goes on. In
    both, Spark finds the source that a package brings which is named as Spark wants it.
    """
    (tmp_path / "pyspark_brought.py").write_text(BROUGHT)
    done = run_python(TWO_SESSIONS, tmp_path, "--driver-memory 600m pyspark-shell")
    assert (done.returncode, done.stderr) == (0, "")
    told, first, brought, _, second, again, seen = done.stdout.splitlines()
    assert told.startswith(
        f"Spark {pyspark.__version__} runs on 2 cores. UI: off Log: .work/logs/spark-"
    )
    log = tmp_path / told.split("Log: ")[1]
    assert log.is_file(), "what the JVM prints went nowhere"
    assert not list(tmp_path.glob(".work/spark/sockets-*"))
    assert 500 < int(first) <= 600 < int(second) <= 700
    assert (brought, again) == ("42", "42")
    assert seen == "4"


def share_class_archive(folder: Path) -> None:
    """A JVM that starts there has it, and takes half of the CPU time."""
    (folder / ".work").mkdir()
    (folder / ".work" / "java").symlink_to(work_dir("java"))


def run_python(code: str, folder: Path, submit: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, with `submit` for PYSPARK_SUBMIT_ARGS."""
    share_class_archive(folder)
    return subprocess.run(
        [sys.executable, "-c", f"from tutorial_pkg import start_spark\n{code}"],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=folder,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": submit, "PYTHONPATH": str(folder)},
    )


def test_the_error_of_an_exception_is_one_line_and_nothing_is_printed(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.sql("SELECT nope")
    assert last_error(caught.value).startswith("AnalysisException: [UNRESOLVED_COLUMN")
    assert "\n" not in last_error(caught.value)
    assert capfd.readouterr() == ("", "")
