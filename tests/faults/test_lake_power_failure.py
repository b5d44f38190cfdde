"""Power failures under `objects` and `delta_py` in folders: what was reported done is there, once.

The checkpoint is on another disk, and says which batches Spark knows to be done.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType

from spark_connector_tests.query_process import wait_until
from tests.faults.spare_driver import SECONDS
from tests.faults.test_power_failure import Disk, disk
from tests.soak import few_or_many
from tests.unit.objects.folders import rows

__all__ = ["disk"]  # the fixture

ROWS = 13  # in a batch
SINKS: dict[str, tuple[str, dict[str, str]]] = {
    "objects": ("objects", {"format": "parquet"}),
    "appended": ("delta_py", {}),
    "upserted": ("delta_py", {"mode": "upsert", "key": "value"}),
}


@few_or_many("failures", 1, 20)
def test_done_batches_survive_a_power_failure(
    spark: SparkSession, disk: Disk, tmp_path: Path, failures: int
) -> None:
    copies = {}
    with disk.mounted(disk.image) as folder:
        queries = [_start(spark, name, folder, tmp_path) for name in SINKS]
        for number in range(failures):
            wait_until(lambda: min(_done(tmp_path).values()) >= 3, SECONDS, "some batches")
            time.sleep(random.uniform(0, 2))  # a random moment is what this is about
            done, copy = _done(tmp_path), tmp_path / f"copy-{number}"
            copies[copy] = done
            disk.copy(copy, psutil.Process().children(recursive=True))
        for query in queries:
            query.stop()
    for copy, done in copies.items():
        with disk.mounted(copy) as folder:
            for name, batches in done.items():
                values = _values(name, folder)
                missing = set(range(ROWS * batches)) - values.keys()
                assert not missing, f"{name}: reported done, and lost"
                assert set(values.values()) == {1}, f"{name}: duplicates"


def _start(spark: SparkSession, name: str, folder: Path, checkpoints: Path) -> Any:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
    form, options = SINKS[name]
    writer = source.select("value").writeStream.format(form).options(**options)
    writer = writer.option("checkpointLocation", str(checkpoints / name))
    return writer.trigger(processingTime="100 milliseconds").start(str(folder / name))


def _done(checkpoints: Path) -> dict[str, int]:
    """Return how many batches of each sink Spark has recorded as done."""
    commits = {name: (checkpoints / name / "commits").glob("*") for name in SINKS}
    return {
        name: max((int(file.name) + 1 for file in files if file.name.isdigit()), default=0)
        for name, files in commits.items()
    }


def _values(name: str, folder: Path) -> Counter[int]:
    if name == "objects":
        schema = StructType().add("value", LongType())
        return Counter(row["value"] for row in rows(folder / name, schema, format="parquet"))
    _delete_empty_commit(folder / name)
    return Counter(DeltaTable(folder / name).to_pyarrow_table().column("value").to_pylist())


def _delete_empty_commit(table: Path) -> None:
    """As the error says: an empty newest commit was never reported done."""
    newest = max(table.glob("_delta_log/*.json"))
    if not newest.stat().st_size:
        newest.unlink()
