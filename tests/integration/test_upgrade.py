"""What may change between two starts on one checkpoint, as docs/upgrade.md says.

Each case changes a query after its first start. The page must name the outcome of the second.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

PAGE = Path(__file__).parents[2] / "docs" / "upgrade.md"
FIRST, SECOND = range(10), range(10, 20)
Change = Callable[[DataFrame], DataFrame]


@dataclass
class Case:
    """A change, and the right result of the second start; None if it should be refused."""

    change: str
    right: Any
    query: Change
    sources: int = 1
    mode: str = "append"
    source: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    format: str = "file_lines"
    sink: str = ""  # a format that writes into a folder, for foreachBatch


def numbers(lines: DataFrame) -> DataFrame:
    return lines.select(F.col("value").cast("int").alias("n"))


def negative(batches: Any) -> Any:
    for batch in batches:
        yield pa.record_batch({"n": pc.negate(batch.column("value").cast(pa.int32()))})


NEW = [{"n": number} for number in SECOND]
LIMIT = {"maxRowsPerTrigger": "3"}
STATELESS = [
    Case("nothing", NEW, numbers),
    Case("an option of the source: `maxRowsPerTrigger`", NEW, numbers, source=LIMIT),
    Case(
        "the code of a map",
        [{"n": -number} for number in reversed(SECOND)],
        lambda lines: lines.mapInArrow(negative, "n INT"),
    ),
    Case(
        "a filter, and a different column",
        [{"n": 19, "twice": 38}],
        lambda lines: numbers(lines).filter("n > 18").withColumn("twice", F.col("n") * 2),
    ),
    Case(
        "a different sink (`cpu_log` for `foreachBatch`)",
        [{"item": str(number)} for number in SECOND],
        lambda lines: lines.withColumnRenamed("value", "item"),
        sink="cpu_log",
    ),
    Case("a different sink (`parquet` for `foreachBatch`)", NEW, numbers, sink="parquet"),
    Case("a different parallelism", NEW, lambda lines: numbers(lines).repartition(3)),
    Case("one more source (a union)", None, numbers, sources=2),
    Case("a different source (`text` for `file_lines`)", None, numbers, format="text"),
]


def parity(lines: DataFrame) -> DataFrame:
    return numbers(lines).groupBy((F.col("n") % 2).alias("odd"))


def sums(lines: DataFrame) -> DataFrame:
    return parity(lines).agg(F.sum("n").alias("of"))


def totals(groups: int, of: Callable[[list[int]], int]) -> list[Any]:
    split = [[n for n in range(20) if n % groups == rest] for rest in range(groups)]
    return [{"odd": rest, "of": of(group)} for rest, group in enumerate(split)]


def updating(change: str, right: Any, query: Change = sums, **more: Any) -> Case:
    return Case(change, right, query, **{"mode": "update", **more})


STATEFUL = [
    updating("nothing", totals(2, sum)),
    updating(
        "an option of the source: `maxRowsPerTrigger`",
        totals(2, sum),
        mode="complete",
        source=LIMIT,
    ),
    updating("the output mode: `complete` for `update`", totals(2, sum), mode="complete"),
    updating(
        "the number of state partitions: it stays as it was",
        totals(2, sum),
        settings={"spark.sql.shuffle.partitions": "5"},
    ),
    updating(
        "a filter before the aggregate",
        [{"odd": 0, "of": 20 + 18}, {"odd": 1, "of": 25 + 19}],
        lambda lines: sums(lines.filter("value > '17' OR value < '1'")),
    ),
    updating(
        "what comes after the aggregate",
        [{"odd": 0, "of": 90, "big": True}, {"odd": 1, "of": 100, "big": True}],
        lambda lines: sums(lines).withColumn("big", F.col("of") > 50),
    ),
    updating(
        "a different aggregate of the same type: `max` for `sum`",
        totals(2, max),
        lambda lines: parity(lines).agg(F.max(F.col("n").cast("long")).alias("of")),
    ),
    updating(
        "a different key of the same type: `n % 3` for `n % 2`",
        totals(3, sum),
        lambda lines: (
            numbers(lines).groupBy((F.col("n") % 3).alias("odd")).agg(F.sum("n").alias("of"))
        ),
    ),
    updating(
        "one more column in the aggregate",
        None,
        lambda lines: parity(lines).agg(F.sum("n").alias("of"), F.max("n")),
    ),
    updating(
        "a key of a different type",
        None,
        lambda lines: (
            numbers(lines)
            .groupBy((F.col("n") % 2).cast("string").alias("odd"))
            .agg(F.sum("n").alias("of"))
        ),
    ),
    updating(
        "one more step that keeps state: `dropDuplicates` before it",
        None,
        lambda lines: sums(lines.dropDuplicates()),
    ),
    updating("one more source (a union)", None, sources=2),
]


def start(spark: SparkSession, case: Case, folder: Path, checkpoint: Path) -> list[Any]:
    """Run the query to the end of its input; return the last version of each row it wrote."""
    rows: dict[Any, dict[str, Any]] = {}

    def record(batch: DataFrame, _: int) -> None:
        written = [row.asDict() for row in batch.collect()]
        rows.update({row[batch.columns[0]]: row for row in written})

    reader = spark.readStream.format(case.format).options(**case.source)
    lines = reader.load(str(folder / "in"))
    for other in range(1, case.sources):
        write(folder / f"in{other}", "more.txt", range(0))
        lines = lines.union(reader.load(str(folder / f"in{other}")))
    writer = case.query(lines).writeStream.outputMode(case.mode).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(checkpoint))
    out = str(folder / case.sink)
    started = writer.format(case.sink).start(out) if case.sink else writer.foreachBatch(record)
    query = started if case.sink else started.start()
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    if case.sink:
        record(spark.read.format(case.sink).load(out).select(*case.right[0]), 0)
    return [rows[key] for key in sorted(rows)]


def write(folder: Path, name: str, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{number}\n" for number in numbers))


def outcome(spark: SparkSession, case: Case, folder: Path, checkpoint: Path) -> str:
    before = {name: spark.conf.get(name) for name in case.settings}
    for name, value in case.settings.items():
        spark.conf.set(name, value)
    try:
        rows = start(spark, case, folder, checkpoint)
        return "resumes |" if rows == case.right else "resumes, **wrong**"
    except PySparkException:
        return "refused"
    except Py4JJavaError:  # the query ran, but its output can't be read
        return "resumes, **what it writes cannot be read**"
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


@pytest.mark.soak  # it examines Spark, whose version is pinned
@pytest.mark.parametrize("cases", [STATELESS, STATEFUL], ids=["stateless", "stateful"])
def test_page_names_each_outcome(spark: SparkSession, tmp_path: Path, cases: list[Case]) -> None:
    write(tmp_path / "in", "first.txt", FIRST)
    start(spark, cases[0], tmp_path, tmp_path / "checkpoint")
    write(tmp_path / "in", "second.txt", SECOND)
    page = PAGE.read_text()
    for number, case in enumerate(cases):
        copy = shutil.copytree(tmp_path / "checkpoint", tmp_path / f"checkpoint-{number}")
        assert f"| {case.change} | {outcome(spark, case, tmp_path, copy)}" in page
