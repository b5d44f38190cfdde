"""The queries that try a source or a sink: plain data, so that another process can run them too."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from spark_connector_tests.described import as_options, format_name
from spark_connector_tests.processes import SparkProcesses
from spark_connector_tests.promise import Mistake

REREADS = 3
PART = "_part"  # the column that says which task writes a row
WRITERS = 3  # tasks; in each batch one of them has nothing to write
NOW = "now"  # the file that makes a task fail
WORKER_LOST = "Python worker exited unexpectedly"  # as Spark says it


class ToldToFail(Exception):
    """The kit makes a batch or a task fail, to see what becomes of its rows."""


# A row's number, and a number that stands for all its values.
Seen = tuple[int, int]
PRINT = "xxhash64(CAST(struct(*) AS STRING))"  # of a map there is no hash, but its text has one


class Ledger:
    """An idempotent sink: a file for each attempt at each batch, with what was seen of its rows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir(exist_ok=True)
        self._known: dict[str, list[Seen]] = {}  # files never change

    def add(self, batch: int, rows: Sequence[Seen]) -> None:
        name = f"{batch:06}-{time.time_ns()}"
        draft = self._folder / f".{name}"
        draft.write_text(json.dumps(rows))
        draft.rename(self._folder / name)

    def attempts(self) -> dict[int, list[list[Seen]]]:
        """For each batch the rows of its attempts, in the order of time."""
        for file in self._folder.glob("[0-9]*"):
            if file.name not in self._known:
                self._known[file.name] = [(n, p) for n, p in json.loads(file.read_text())]
        found: dict[int, list[list[Seen]]] = {}
        for name in sorted(self._known):
            found.setdefault(int(name[:6]), []).append(self._known[name])
        return found

    def seen(self) -> list[Seen]:
        """The rows of a table in which a batch's last attempt replaces earlier ones."""
        return [row for tries in self.attempts().values() for row in tries[-1]]

    def rows(self) -> list[int]:
        """Their numbers."""
        return [number for number, _ in self.seen()]


@dataclass
class SourceQuery:
    """Reads the source under trial into a ledger.

    What is done with a batch, beside noting its rows: the next one with rows fails, after they were
    noted, when the file `fails` is there; its beginning is read first (`begins`); it is read again
    (`rereads`: both times are in `reread`); its rows are `kept`, as they are.
    """

    format: str | type[DataSource]
    options: dict[str, str]
    schema: str | None
    number: str | None
    checkpoint: Path
    ledger: Path
    begins: bool = False
    rereads: bool = False
    keeps: bool = False

    def __post_init__(self) -> None:
        self.fails = self.ledger / "fails"
        self.reread: list[tuple[list[Seen], list[Seen]]] = []
        self.kept: list[tuple[int, Row]] = []

    def start(
        self, spark: SparkSession, more: Mapping[str, object] | None = None, drain: bool = False
    ) -> StreamingQuery:
        """Start it with `more` options; with `drain` it ends when everything has been read."""
        source = spark.readStream.format(format_name(spark, self.format))
        source = source.schema(self.schema) if self.schema else source
        rows = source.options(**as_options(self.options, more)).load()
        return _start(
            self._numbered(rows).writeStream.foreachBatch(self._note), self.checkpoint, drain
        )

    def batch(self, spark: SparkSession) -> list[Seen]:
        """The rows that `spark.read` gives now."""
        source = spark.read.format(format_name(spark, self.format)).options(**self.options)
        source = source.schema(self.schema) if self.schema else source
        return _collected(self._numbered(source.load()))

    def _numbered(self, rows: DataFrame) -> DataFrame:
        number = f"CAST({self.number} AS BIGINT)" if self.number else PRINT
        _selected(rows, "number", f"{number} AS number")
        return rows.selectExpr(f"{number} AS number", f"{PRINT} AS print", "struct(*) AS row")

    def _note(self, batch: DataFrame, number: int) -> None:
        if self.begins:
            batch.limit(1).collect()
        seen = _collected(batch)
        if self.rereads:
            self.reread.append((seen, collected_elsewhere(batch)))
        if self.keeps:
            self.kept += [(row.number, row.row) for row in batch.select("number", "row").collect()]
        Ledger(self.ledger).add(number, seen)
        if (
            seen and self.fails.exists()
        ):  # an empty batch shows nothing, and a query begins with one
            self.fails.unlink()
            raise ToldToFail


def _collected(batch: DataFrame) -> list[Seen]:
    return [(row.number, row.print) for row in batch.select("number", "print").collect()]


def collected_elsewhere(batch: DataFrame) -> list[Seen]:
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

    A row's column `_part` says which task writes it. While the folder `fails` exists, the first
    task waits when it has handed on its rows, and fails as soon as the file `now` is in there. In
    the output mode `complete` each batch has the distinct rows of all batches so far.
    """

    format: str | type[DataSource]
    options: dict[str, str]
    columns: list[str]
    types: dict[str, str]
    checkpoint: Path
    batches: Path
    fails: Path | None = None
    mode: str = "append"

    def start(
        self, spark: SparkSession, writers: int = WRITERS, drain: bool = False
    ) -> StreamingQuery:
        """Start it with this many tasks that write; with `drain` it ends when all is written."""
        files = spark.readStream.schema(self._schema()).option("maxFilesPerTrigger", 1)
        rows = files.json(str(self.batches)).repartition(writers, PART).drop(PART)
        if self.fails:
            rows = rows.mapInArrow(_failing(str(self.fails)), rows.schema)
        if self.mode == "complete":
            rows = rows.groupBy(*rows.columns).count().drop("count")
        writer = self._selected(rows).writeStream.outputMode(self.mode)
        writer = writer.format(format_name(spark, self.format)).options(**self.options)
        return _start(writer, self.checkpoint, drain)

    def batch(self, spark: SparkSession, file: Path, mode: str = "append") -> None:
        """Write a file's rows, or a folder's, with `df.write`."""
        rows = self._selected(spark.read.schema(self._schema()).json(str(file)).drop(PART))
        writer = rows.write.format(format_name(spark, self.format)).options(**self.options)
        writer.mode(mode).save()

    def _schema(self) -> str:
        columns = {"value": "STRING", **self.types, PART: "LONG"}
        return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())

    def _selected(self, rows: DataFrame) -> DataFrame:
        return _selected(rows, "columns", *(self.columns or ["*"]))


Batches = Iterator[pa.RecordBatch]


def _failing(while_exists: str) -> Callable[[Batches], Batches]:
    folder = Path(while_exists)

    def run(batches: Batches) -> Batches:
        yield from batches
        context = TaskContext.get()
        if not context or context.partitionId():
            return
        while folder.exists():
            if (folder / NOW).exists():
                raise ToldToFail
            time.sleep(0.02)

    return run


def _selected(rows: DataFrame, field: str, *expressions: str) -> DataFrame:
    """What a field of the description selects; `Mistake` if there are no such columns."""
    try:
        return rows.selectExpr(*expressions)
    except (AnalysisException, ParseException) as error:
        columns = ", ".join(f"`{name}`" for name in rows.columns)
        told = f"{', '.join(expressions)}: {str(error).splitlines()[0]}"
        raise Mistake(f"`{field}` must fit the columns {columns}; {told}") from error


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


def keys_of_parts(spark: SparkSession, parts: int) -> list[int]:
    """For each of that many tasks, a value of the column `_part` that leads to it."""
    place = f"CAST(pmod(hash(id), {parts}) AS INT) AS place"
    found = {row.place: row.id for row in spark.range(32 * parts).selectExpr("id", place).collect()}
    return [found[place] for place in range(parts)]
