"""The queries under trial: plain data, so that a driver in another process can run them, too."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil
import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from spark_connector_tests.described import as_options, format_name
from spark_connector_tests.promise import Mistake
from spark_connector_tests.query_process import kill_process

REREADS = 3
WRITERS = 3  # tasks
PART = "_part"  # the column that chooses the task that writes a row
NOW = "now"  # the file that makes a task fail
WORKER_LOST = "Python worker exited unexpectedly"  # Spark's words
DAEMON = "pyspark.daemon"  # forks the workers of tasks, and keeps them for the next task


class InjectedFailure(Exception):
    """The kit makes a batch or a task fail, to see what happens to its rows."""


# A row's number, and a hash of all its values.
Seen = tuple[int, int]
HASH = "xxhash64(CAST(struct(*) AS STRING))"  # a map can't be hashed, but its text can


class Ledger:
    """An idempotent sink: for each attempt at each batch, a file with the rows that arrived."""

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
        """Return for each batch the rows of its attempts, oldest first."""
        for file in self._folder.glob("[0-9]*"):
            if file.name not in self._known:
                self._known[file.name] = [(n, h) for n, h in json.loads(file.read_text())]
        attempts: dict[int, list[list[Seen]]] = {}
        for name in sorted(self._known):
            attempts.setdefault(int(name[:6]), []).append(self._known[name])
        return attempts

    def seen(self) -> list[Seen]:
        """Return the rows of each batch's last attempt."""
        return [row for tries in self.attempts().values() for row in tries[-1]]

    def rows(self) -> list[int]:
        """Return the numbers of these rows."""
        return [number for number, _ in self.seen()]


@dataclass
class SourceQuery:
    """Reads the source under trial into a ledger.

    Attributes:
        begins: Read the first row of each batch first, and then the whole batch.
        rereads: Read each batch twice, in different processes; `reread` has both results.
        keeps: Add the rows to `kept`, unchanged.
        fails: While this file exists, the next batch with rows fails after it was recorded.
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
            self._numbered(rows).writeStream.foreachBatch(self._record), self.checkpoint, drain
        )

    def batch(self, spark: SparkSession) -> list[Seen]:
        """Return the rows of `spark.read`."""
        source = spark.read.format(format_name(spark, self.format)).options(**self.options)
        source = source.schema(self.schema) if self.schema else source
        return _collected(self._numbered(source.load()))

    def _numbered(self, rows: DataFrame) -> DataFrame:
        number = f"CAST({self.number} AS BIGINT)" if self.number else HASH
        _selected(rows, "number", f"{number} AS number")
        return rows.selectExpr(f"{number} AS number", f"{HASH} AS hash", "struct(*) AS row")

    def _record(self, batch: DataFrame, number: int) -> None:
        if self.begins:
            batch.limit(1).collect()
        seen = _collected(batch)
        if self.rereads:
            self.reread.append((seen, collected_elsewhere(batch)))
        if self.keeps:
            self.kept += [(row.number, row.row) for row in batch.select("number", "row").collect()]
        Ledger(self.ledger).add(number, seen)
        if seen and self.fails.exists():  # a query may start with an empty batch
            self.fails.unlink()
            raise InjectedFailure


def _collected(batch: DataFrame) -> list[Seen]:
    return [(row.number, row.hash) for row in batch.select("number", "hash").collect()]


def collected_elsewhere(batch: DataFrame) -> list[Seen]:
    """Collect a batch in new processes; repeat that only if Spark has lost a worker.

    A cluster would repeat such a task, a local Spark does not.
    """
    for _ in range(REREADS - 1):
        end_task_workers(batch.sparkSession)
        try:
            return _collected(batch)
        except Exception as error:
            if WORKER_LOST not in str(error):
                raise
    return _collected(batch)


def end_task_workers(spark: SparkSession) -> None:
    """Have the next task run in a new process.

    Wait until all workers are gone: Spark could still hand a task to a dying one.
    """
    workers = [process for process in jvm_of(spark).children(recursive=True) if _is_worker(process)]
    for process in workers:
        kill_process(process)
    psutil.wait_procs(workers, timeout=5)


def jvm_of(spark: SparkSession) -> psutil.Process:
    return psutil.Process(spark.sparkContext._jvm.ProcessHandle.current().pid())  # type: ignore


def _is_worker(process: psutil.Process) -> bool:
    """Return whether the daemon of a JVM has forked it; both have the same command."""
    try:
        daemon = process.parent()
        jvm = daemon and daemon.parent()
        return bool(jvm and DAEMON in daemon.cmdline() and DAEMON not in jvm.cmdline())
    except psutil.Error:
        return False


@dataclass
class SinkQuery:
    """Writes the files of a folder to the sink under trial; each file is one batch.

    While the folder `fails` exists, the first task waits after its last row, and fails as soon as
    the folder contains the file `now`.
    """

    format: str | type[DataSource]
    options: dict[str, str]
    columns: list[str]
    types: dict[str, str]
    checkpoint: Path
    batches: Path
    fails: Path | None = None

    def start(self, spark: SparkSession, writers: int = WRITERS) -> StreamingQuery:
        """Start it with this many writing tasks."""
        files = spark.readStream.schema(self._schema()).option("maxFilesPerTrigger", 1)
        rows = files.json(str(self.batches)).repartition(writers, PART).drop(PART)
        if self.fails:
            rows = rows.mapInArrow(_failing(str(self.fails)), rows.schema)
        writer = self._selected(rows).writeStream.format(format_name(spark, self.format))
        return _start(writer.options(**self.options), self.checkpoint)

    def batch(self, spark: SparkSession) -> None:
        """Write all rows with `df.write`."""
        rows = self._selected(spark.read.schema(self._schema()).json(str(self.batches)).drop(PART))
        writer = rows.write.format(format_name(spark, self.format)).options(**self.options)
        writer.mode("append").save()

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
                raise InjectedFailure
            time.sleep(0.02)

    return run


def _selected(rows: DataFrame, field: str, *expressions: str) -> DataFrame:
    """Select a field's expressions; raise `Mistake` if there are no such columns."""
    try:
        return rows.selectExpr(*expressions)
    except (AnalysisException, ParseException) as error:
        columns = ", ".join(f"`{name}`" for name in rows.columns)
        reason = f"{', '.join(expressions)}: {str(error).splitlines()[0]}"
        raise Mistake(f"`{field}` must fit the columns {columns}; {reason}") from error


def _start(writer: DataStreamWriter, checkpoint: Path, drain: bool = False) -> StreamingQuery:
    writer = writer.option("checkpointLocation", str(checkpoint))
    return (writer.trigger(availableNow=True) if drain else writer).start()


def forget_last_commit(checkpoint: Path) -> None:
    """Remove Spark's record of the last batch, as if the driver had died just before it."""
    commits = checkpoint / "commits"
    last = max(int(file.name) for file in commits.glob("*") if file.name.isdigit())
    for file in [*commits.glob(f"{last}*"), *commits.glob(f".{last}.*")]:
        file.unlink()


@cache
def keys_of_parts(spark: SparkSession, parts: int) -> list[int]:
    """Return for each of that many tasks a value of the column `_part` that chooses it."""
    place = f"CAST(pmod(hash(id), {parts}) AS INT) AS place"
    keys = {row.place: row.id for row in spark.range(32 * parts).selectExpr("id", place).collect()}
    return [keys[place] for place in range(parts)]
