"""The queries that try a source or a sink: plain data, so that another process can run them too."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from tutorial_pkg.testing.described import as_options, format_name
from tutorial_pkg.testing.processes import SparkProcesses

REREADS = 3
WORKER_LOST = "Python worker exited unexpectedly"  # as Spark says it


class ToldToFail(Exception):
    """The kit makes a batch or a task fail, to see what becomes of its rows."""


class Ledger:
    """An idempotent sink: a file for each attempt at each batch, with its rows' numbers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir(exist_ok=True)
        self._known: dict[str, list[int]] = {}  # files never change

    def add(self, batch: int, numbers: list[int]) -> None:
        name = f"{batch:06}-{time.time_ns()}"
        draft = self._folder / f".{name}"
        draft.write_text(json.dumps(numbers))
        draft.rename(self._folder / name)

    def attempts(self) -> dict[int, list[list[int]]]:
        """For each batch the rows of its attempts, in the order of time."""
        for file in self._folder.glob("[0-9]*"):
            if file.name not in self._known:
                self._known[file.name] = json.loads(file.read_text())
        found: dict[int, list[list[int]]] = {}
        for name in sorted(self._known):
            found.setdefault(int(name[:6]), []).append(self._known[name])
        return found

    def rows(self) -> list[int]:
        """What a table would hold in which a batch's last attempt replaces earlier ones."""
        return [number for tries in self.attempts().values() for number in tries[-1]]


@dataclass
class SourceQuery:
    """Reads the source under trial into a ledger.

    What is done with a batch, beside noting its rows: the next one with rows `fails`, after they
    were noted; its beginning is read first (`begins`); it is read again (`rereads`: both times are
    in `reread`).
    """

    format: str | type[DataSource]
    options: dict[str, str]
    schema: str | None
    number: str | None
    checkpoint: Path
    ledger: Path
    fails: bool = False
    begins: bool = False
    rereads: bool = False

    def __post_init__(self) -> None:
        self.reread: list[tuple[list[int], list[int]]] = []

    def start(
        self, spark: SparkSession, more: Mapping[str, object] | None = None, drain: bool = False
    ) -> StreamingQuery:
        """Start it with `more` options; with `drain` it ends when all there is has been read."""
        source = spark.readStream.format(format_name(spark, self.format))
        source = source.schema(self.schema) if self.schema else source
        rows = source.options(**as_options(self.options, more)).load()
        number = self.number or "xxhash64(struct(*))"  # at least as good to compare rows by
        numbers = _selected(rows, "number", f"CAST({number} AS BIGINT) AS number")
        writer = numbers.writeStream.foreachBatch(self._note)
        return _start(writer, self.checkpoint, drain)

    def _note(self, batch: DataFrame, number: int) -> None:
        if self.begins:
            batch.limit(1).collect()
        numbers = _collected(batch)
        if self.rereads:
            self.reread.append((numbers, collected_elsewhere(batch)))
        Ledger(self.ledger).add(number, numbers)
        if self.fails and numbers:  # an empty batch shows nothing, and a new query begins with one
            self.fails = False
            raise ToldToFail


def _collected(batch: DataFrame) -> list[int]:
    return [row.number for row in batch.collect()]


def collected_elsewhere(batch: DataFrame) -> list[int]:
    """In new processes; an error is raised at once, unless it is that a worker was lost.

    A cluster would try such a task again, a local Spark does not. A worker that is lost each time
    is the source's doing.
    """
    for _ in range(REREADS - 1):
        SparkProcesses(batch.sparkSession).end_task_workers()
        try:
            return _collected(batch)
        except Exception as error:
            if WORKER_LOST not in str(error):
                raise
    return _collected(batch)


@dataclass
class SinkQuery:
    """Writes the files of a folder, each of which is one batch, to the sink under trial.

    The last task fails, when it has handed on its rows, while the file `fails` exists. In the
    output mode `complete` each batch has the distinct rows of all batches so far.
    """

    format: str | type[DataSource]
    options: dict[str, str]
    columns: list[str]
    checkpoint: Path
    batches: Path
    fails: Path | None = None
    mode: str = "append"

    def start(self, spark: SparkSession, writers: int = 2, drain: bool = False) -> StreamingQuery:
        """Start it with so many tasks that write; with `drain` it ends when all is written."""
        files = spark.readStream.schema("value STRING").option("maxFilesPerTrigger", 1)
        rows = files.json(str(self.batches)).repartition(writers)
        if self.fails:
            rows = rows.mapInArrow(_failing(writers - 1, str(self.fails)), "value STRING")
        if self.mode == "complete":
            rows = rows.groupBy("value").count()
        writer = _selected(rows, "columns", *self.columns).writeStream.outputMode(self.mode)
        writer = writer.format(format_name(spark, self.format)).options(**self.options)
        return _start(writer, self.checkpoint, drain)


Batches = Iterator[pa.RecordBatch]


def _failing(partition: int, while_exists: str) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        yield from batches
        context = TaskContext.get()
        if context and context.partitionId() == partition and Path(while_exists).exists():
            raise ToldToFail

    return run


def _selected(rows: DataFrame, field: str, *expressions: str) -> DataFrame:
    """What a field of the description selects; `ValueError` if there are no such columns."""
    try:
        return rows.selectExpr(*expressions)
    except (AnalysisException, ParseException) as error:
        columns = ", ".join(f"`{name}`" for name in rows.columns)
        told = f"{', '.join(expressions)}: {str(error).splitlines()[0]}"
        raise ValueError(f"`{field}` must fit the columns {columns}; {told}") from error


def _start(writer: DataStreamWriter, checkpoint: Path, drain: bool) -> StreamingQuery:
    writer = writer.option("checkpointLocation", str(checkpoint))
    return (writer.trigger(availableNow=True) if drain else writer).start()


def offsets(checkpoint: Path) -> list[object]:
    """The source's offset at the end of each batch in the checkpoint."""
    files = [file for file in (checkpoint / "offsets").glob("*") if file.name.isdigit()]
    numbered = sorted(files, key=lambda file: int(file.name))
    return [json.loads(file.read_text().splitlines()[2]) for file in numbered]


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had died between the sink's commit and Spark's note of it."""
    commits = checkpoint / "commits"
    last = max(int(file.name) for file in commits.glob("*") if file.name.isdigit())
    for file in [*commits.glob(f"{last}*"), *commits.glob(f".{last}.*")]:
        file.unlink()
