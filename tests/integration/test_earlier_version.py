"""Files of version 0.1.0 stay readable: a log, checkpoints, and a directory cut off in a commit.

That version wrote `tests/earlier/written`, when connectors were in one folder.
Its driver was killed when the commit of batch 3 was recorded and not yet applied, with lines in
the log that no batch had taken. In the checkpoint of the files, `@DIRECTORY@` stands for the
folder.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tutorial_pkg.core.spark_versions import HAS_LIMITS

WRITTEN = Path(__file__).parents[1] / "earlier" / "written"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    directory = tmp_path / "written"
    shutil.copytree(WRITTEN, directory)
    offsets = directory / "lines_checkpoint" / "offsets" / "0"
    offsets.write_text(offsets.read_text().replace("@DIRECTORY@", str(directory)))
    return directory


def items(spark: SparkSession, directory: Path) -> Counter[str]:
    return Counter(row.item for row in spark.read.format("cpu_log").load(str(directory)).collect())


def test_old_logs_stay_readable(
    spark: SparkSession, written: Path, free_ports: Callable[[int], int]
) -> None:
    lines = (
        spark.readStream.format("network_lines")
        .option("port", free_ports(2))
        .option("parallelism", 2)
        .load(str(written / "log"))
    )
    query = lines.writeStream.format("cpu_log").trigger(availableNow=True)
    query = query.option("checkpointLocation", str(written / "checkpoint"))
    for _ in range(1 if HAS_LIMITS else 2):  # there the repeated batch ends the query
        query.start(str(written / "cpu_log")).awaitTermination()
    sent = [f"{name}{number}" for name in "abcd" for number in range(150)]
    sent += [f"e{number}" for number in range(20)]
    assert items(spark, written / "cpu_log") == Counter(sent)


def test_files_that_were_read_go_on(spark: SparkSession, written: Path) -> None:
    with (written / "lines" / "app.log").open("a") as file:
        file.write("f\nfour\n")
    lines = spark.readStream.format("file_lines").load(str(written / "lines"))
    query = lines.writeStream.format("cpu_log").trigger(availableNow=True)
    query = query.option("checkpointLocation", str(written / "lines_checkpoint"))
    query.start(str(written / "lines_cpu_log")).awaitTermination()
    expected = ["old 1", "old 2", "one", "two", "three", "half", "four"]
    assert items(spark, written / "lines_cpu_log") == Counter(expected)
