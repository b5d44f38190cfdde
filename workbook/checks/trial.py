"""Try a learner's source or sink: its functions alone, in a real query, or with the kit."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from spark_connector_tests import Report
from tutorial_pkg.builder import Split
from tutorial_pkg.core.errors import last_error
from workbook.checks.verdict import Wrong, expect, must_be

SECONDS = 60  # for what takes milliseconds: a busy machine passes
PATIENCE = 5  # seconds, for rows that a right source may not see at once


def session() -> SparkSession:
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise Wrong("Spark does not run. Run the cell with start_spark again.")
    return spark


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@contextmanager
def no_file_in_place(
    folder: Path,
    pattern: str,
    why: str = "readers may see half of one. Try a draft, and rename it at the end.",
) -> Iterator[None]:
    """Raise `Wrong` if one of these files is meanwhile written, instead of replaced by another."""
    with ExitStack() as stack:
        files = [file for file in folder.glob(pattern) if file.is_file()]
        readers = [stack.enter_context(file.open()) for file in files]
        for file in files:
            os.utime(file, (0, 0))
        yield
        for file, reader in zip(files, readers, strict=True):
            untouched = os.fstat(reader.fileno()).st_mtime == 0
            expect(untouched, f"{file.name} was written in place, and {why}")


@contextmanager
def own_database(uri: str) -> Iterator[str]:
    """Yield the address of a database that is dropped afterwards."""
    try:
        connection = psycopg.connect(uri, autocommit=True)
    except psycopg.OperationalError:
        text = "PostgreSQL does not respond. Run the cell again that starts it."
        raise Wrong(text) from None
    with connection as server:
        name = f"check_{server.info.backend_pid}"
        server.execute(f"CREATE DATABASE {name}")
        try:
            yield psycopg.conninfo.make_conninfo(uri, dbname=name)
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def as_json(value: Any) -> Any:
    """Return what comes back from a checkpoint."""
    return json.loads(json.dumps(value))


def within_seconds(call: Callable[..., Any], *arguments: Any, hint: str) -> Any:
    """Return what the call returns; raise `Wrong` with the hint if it never does."""
    outcome: list[tuple[Any, Exception | None]] = []

    def run() -> None:
        try:
            outcome.append((call(*arguments), None))
        except Exception as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    expect(outcome, hint)
    result, error = outcome[0]
    if error:
        raise error
    return result


def must_keep_all(report: Report) -> None:
    """Raise `Wrong` for the broken promise to mend first."""
    for verdict in report.verdicts:
        seen = " ".join(verdict.seen.split())[:300]
        text = f"{verdict.name}: {seen} → {verdict.remedy}"
        expect([verdict.name] != report.broken[:1], text)


def run_and_restart(
    query: Callable[[], DataStreamWriter], folder: Path, steps: Sequence[Callable[[], object]]
) -> StreamingQuery:
    """After each step run a query to its end, with its checkpoint in the folder.

    The last batch is then repeated, as if the query had died before Spark recorded it. Returns the
    query that did so.
    """
    for step in steps:
        step()
        run_to_end(query(), folder)
    commits = folder / "checkpoint" / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    return run_to_end(query(), folder)


def run_to_end(writer: DataStreamWriter, folder: Path) -> StreamingQuery:
    """Run a query over what there is now; raise `Wrong` with its error if it fails."""
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    ended: bool | None = True
    with suppress(StreamingQueryException):  # reported below, in one line
        ended = query.awaitTermination(SECONDS)
    if query.exception():
        raise Wrong(f"In a real query your class raised {last_error(query)}")
    if not ended:
        query.stop()
        raise Wrong(f"In a real query your class had not finished after {SECONDS} s.")
    return query


def rows_after_restart(
    stream: Callable[[], DataFrame], folder: Path, steps: Sequence[Callable[[], object]]
) -> tuple[list[tuple[Any, ...]], StreamingQuery]:
    """Return the rows of a query that was restarted, and the query; see `run_and_restart`."""
    batches: dict[int, list[tuple[Any, ...]]] = {}

    def keep(rows: DataFrame, batch: int) -> None:
        batches[batch] = [tuple(row) for row in rows.collect()]

    query = run_and_restart(lambda: stream().writeStream.foreachBatch(keep), folder, steps)
    return [row for _, rows in sorted(batches.items()) for row in rows], query


def context_of(
    index: int = 0, count: int = 1, query: str = "q", batch: int = 0, **options: Any
) -> SimpleNamespace:
    """Return what the builder passes to a learner's functions."""
    named = SimpleNamespace(**options)
    return SimpleNamespace(index=index, count=count, query=query, batch=batch, options=named)


def filled(state: Any) -> list[Any]:
    """Return the rows that one `fill` adds."""
    rows: list[Any] = []

    def add(row: Any, token: Any = None) -> None:
        rows.append(row)

    state.fill(SimpleNamespace(add=add, close=lambda: None))
    return rows


class Follower:
    """Calls `look` and `read` as the builder does, and remembers the batches."""

    def __init__(self, answer: Any, connection: Any = None, **options: Any) -> None:
        self._look, self._read = answer
        self._connection, self._options = connection, options
        self._offset = dict[str, Any]()
        self._batches: list[tuple[str, Any, Any, list[Any]]] = []

    @property
    def rows(self) -> list[Any]:
        return sorted(row for *_, rows in self._batches for row in rows)

    def follow(self) -> None:
        """Read one more batch."""
        hint = "`look` or `read` never returns. Try to stop at `end`."
        for name, split in within_seconds(self._look, self._context(), hint=hint).items():
            first, end = (split.first, split.end) if isinstance(split, Split) else split
            start = self._offset.setdefault(str(name), first)
            if end > start:
                rows = within_seconds(self._rows, name, start, end, hint=hint)
                self._batches.append((name, start, end, rows))
                self._offset[name] = end

    def follow_until(self, rows: list[Any], why: str) -> None:
        """Read batches until these rows were read, and raise `Wrong` if they never are."""
        end = time.monotonic() + PATIENCE
        while self.rows != rows and time.monotonic() < end:
            self.follow()
            time.sleep(0.05)
        must_be(self.rows, rows, "Your functions read", why)

    def read_again(self) -> None:
        """Raise `Wrong` unless each batch has the same rows once more."""
        for name, start, end, rows in self._batches:
            why = "the rows from `start` to `end` are the same on every call."
            what = f"For split {name!r} from {start} to {end}, called again, `read` returned"
            must_be(sorted(self._rows(name, start, end)), sorted(rows), what, why)

    def _context(self) -> SimpleNamespace:
        context = context_of(**self._options)
        context.connection, context.offset = self._connection, dict(self._offset) or None
        return context

    def _rows(self, name: str, start: Any, end: Any) -> list[Any]:
        return [tuple(row) for row in self._read(self._context(), name, start, end) or ()]
