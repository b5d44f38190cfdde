"""What may change between two starts on one checkpoint: tried, and the table in docs/upgrade.md.

`TUTORIAL_PKG_WRITE_TABLES=1` writes the page anew; without it, the page must say what was found.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tutorial_pkg import last_error

PAGE = Path(__file__).parents[2] / "docs" / "upgrade.md"
FIRST, SECOND = range(10), range(10, 20)
Change = Callable[[DataFrame], DataFrame]


@dataclass
class Case:
    """A change, and what would be right to come out of the second start."""

    what: str
    right: Any
    query: Change
    sources: int = 1
    mode: str = "append"
    source: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    format: str = "file_lines"
    sink: str = ""  # a format that writes into a folder, for foreachBatch


# ---- Queries without state: what the second start writes --------------------------------------


def as_they_are(lines: DataFrame) -> DataFrame:
    return lines.select(F.col("value").cast("int").alias("n"))


NEW = [{"n": number} for number in SECOND]
STATELESS = [
    Case("nothing", NEW, as_they_are),
    Case(
        "an option of the source: `maxRowsPerTrigger`",
        NEW,
        as_they_are,
        source={"maxRowsPerTrigger": "3"},
    ),
    Case(
        "the code of a map",
        [{"n": -number} for number in reversed(SECOND)],
        lambda lines: lines.mapInArrow(negative, "n INT"),
    ),
    Case(
        "a filter, and a different column",
        [{"n": 19, "twice": 38}],
        lambda lines: as_they_are(lines).filter("n > 18").withColumn("twice", F.col("n") * 2),
    ),
    Case(
        "a different sink (`cpu_log` for `foreachBatch`)",
        [{"item": str(number)} for number in SECOND],
        lambda lines: lines.withColumnRenamed("value", "item"),
        sink="cpu_log",
    ),
    Case("a different sink (`parquet` for `foreachBatch`)", NEW, as_they_are, sink="parquet"),
    Case("a different parallelism", NEW, lambda lines: as_they_are(lines).repartition(3)),
    Case("one more source (a union)", None, as_they_are, sources=2),
    Case("a different source (`text` for `file_lines`)", None, as_they_are, format="text"),
]


def negative(batches: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        numbers = pc.negate(batch.column("value").cast(pa.int32()))
        yield pa.record_batch({"n": numbers})


# ---- Queries that aggregate: the groups that the second start writes ---------------------------


def parity(lines: DataFrame) -> DataFrame:
    return as_they_are(lines).groupBy((F.col("n") % 2).alias("odd"))


def sums(lines: DataFrame) -> DataFrame:
    return parity(lines).agg(F.sum("n").alias("of"))


def totals(groups: int, of: Callable[[list[int]], int], numbers: range = range(20)) -> list[Any]:
    split = [[n for n in numbers if n % groups == rest] for rest in range(groups)]
    return [{"odd": rest, "of": of(group)} for rest, group in enumerate(split)]


STATEFUL = [
    Case("nothing", totals(2, sum), sums, mode="update"),
    Case(
        "an option of the source: `maxRowsPerTrigger`",
        totals(2, sum),
        sums,
        mode="complete",
        source={"maxRowsPerTrigger": "5"},
    ),
    Case("the output mode: `complete` for `update`", totals(2, sum), sums, mode="complete"),
    Case(
        "the number of state partitions: it stays as it was",
        totals(2, sum),
        sums,
        mode="update",
        settings={"spark.sql.shuffle.partitions": "5"},
    ),
    Case(
        "a filter before the aggregate",
        [{"odd": 0, "of": 20 + 18}, {"odd": 1, "of": 25 + 19}],
        lambda lines: sums(lines.filter("value > '17' OR value < '1'")),
        mode="update",
    ),
    Case(
        "what comes after the aggregate",
        [{"odd": 0, "of": 90, "big": True}, {"odd": 1, "of": 100, "big": True}],
        lambda lines: sums(lines).withColumn("big", F.col("of") > 50),
        mode="update",
    ),
    Case(
        "a different aggregate of the same type: `max` for `sum`",
        totals(2, max),
        lambda lines: parity(lines).agg(F.max(F.col("n").cast("long")).alias("of")),
        mode="update",
    ),
    Case(
        "a different key of the same type: `n % 3` for `n % 2`",
        totals(3, sum),
        lambda lines: (
            as_they_are(lines).groupBy((F.col("n") % 3).alias("odd")).agg(F.sum("n").alias("of"))
        ),
        mode="update",
    ),
    Case(
        "one more column in the aggregate",
        None,
        lambda lines: parity(lines).agg(F.sum("n").alias("of"), F.max("n")),
        mode="update",
    ),
    Case(
        "a key of a different type",
        None,
        lambda lines: (
            as_they_are(lines)
            .groupBy((F.col("n") % 2).cast("string").alias("odd"))
            .agg(F.sum("n").alias("of"))
        ),
        mode="update",
    ),
    Case(
        "one more step that keeps state: `dropDuplicates` before it",
        None,
        lambda lines: sums(lines.dropDuplicates()),
        mode="update",
    ),
    Case("one more source (a union)", None, sums, sources=2, mode="update"),
]


# ---- The trial ---------------------------------------------------------------------------------


def write(folder: Path, name: str, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{number}\n" for number in numbers))


def start(spark: SparkSession, case: Case, folder: Path, checkpoint: Path) -> list[Any]:
    """One start of the query, to the end of what there is; the last word on each row it wrote."""
    rows: dict[Any, dict[str, Any]] = {}

    def note(batch: DataFrame, _: int) -> None:
        found = [row.asDict() for row in batch.collect()]
        rows.update({row[batch.columns[0]]: row for row in found})

    writer = case.query(read(spark, case, folder)).writeStream.outputMode(case.mode)
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    out = str(folder / case.sink)
    query = writer.format(case.sink).start(out) if case.sink else writer.foreachBatch(note).start()
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    if case.sink:
        note(spark.read.format(case.sink).load(out).select(*case.right[0]), 0)
    return [rows[key] for key in sorted(rows)]


def read(spark: SparkSession, case: Case, folder: Path) -> DataFrame:
    reader = spark.readStream.format(case.format).options(**case.source)
    lines = reader.load(str(folder / "in"))
    for other in range(1, case.sources):
        write(folder / f"in{other}", "more.txt", range(0))
        lines = lines.union(reader.load(str(folder / f"in{other}")))
    return lines


def tried(spark: SparkSession, case: Case, folder: Path, number: int) -> str:
    """What becomes of the second start, as a line of the table."""
    checkpoint = shutil.copytree(folder / "checkpoint", folder / f"checkpoint-{number}")
    before = {name: spark.conf.get(name) for name in case.settings}
    for name, value in case.settings.items():
        spark.conf.set(name, value)
    try:
        found = start(spark, case, folder, checkpoint)
        outcome = "resumes" if found == case.right else "resumes, **wrong**"
    except PySparkException as error:
        outcome = f"refused: {reason(error)}"
    except Py4JJavaError as error:  # the query went on, and then its output was to be read
        outcome = f"resumes, **what it writes cannot be read**: {reason(error)}"
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    return f"| {case.what} | {outcome} |"


def reason(error: Exception) -> str:
    """The name of Spark's error, what its assertion says, or at least its class."""
    text, kind = str(error), str(last_error(error)).split(":")[0]
    names = [name for name in re.findall(r"\[([A-Z_]+[.A-Z_]*)\]", text) if name != "STREAM_FAILED"]
    said = re.search(r"There are \[\d+\] sources in the checkpoint", text)
    return f"`{names[0]}`" if names else said.group() if said else f"`{kind}`"


@pytest.mark.soak  # it examines Spark, whose version is pinned
@pytest.mark.parametrize(("kind", "cases"), [("stateless", STATELESS), ("stateful", STATEFUL)])
def test_the_page_says_what_may_change(
    spark: SparkSession, tmp_path: Path, kind: str, cases: list[Case]
) -> None:
    write(tmp_path / "in", "first.txt", FIRST)
    start(spark, cases[0], tmp_path, tmp_path / "checkpoint")
    write(tmp_path / "in", "second.txt", SECOND)
    lines = [tried(spark, case, tmp_path, number) for number, case in enumerate(cases)]
    table = "\n".join(["| changed | the query |", "|---|---|", *lines])
    page = PAGE.read_text()
    if os.environ.get("TUTORIAL_PKG_WRITE_TABLES"):
        behind_marker = rf"(?<=<!-- {kind} -->\n).*?(?=\n\n)"
        page = re.sub(behind_marker, lambda _: table, page, count=1, flags=re.S)
        PAGE.write_text(page)
    assert f"<!-- {kind} -->\n{table}\n\n" in page, table
