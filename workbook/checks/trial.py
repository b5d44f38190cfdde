"""Try a learner's source or sink: its functions alone, in a real query, or with the kit."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from spark_connector_tests import Report
from spark_connector_tests.queries import forget_last_commit
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
def no_file_in_place(folder: Path, pattern: str, hint: str) -> Iterator[None]:
    """Raise `Wrong` if one of these files is meanwhile written, instead of replaced by another."""
    with scratch() as links:
        for file in filter(Path.is_file, folder.rglob(pattern)):
            os.utime(file, (0, 0))
            os.link(file, links / file.name)
        yield
        for link in links.iterdir():
            text = f"You wrote {link.name} in place; expected a new file, because others may read "
            expect(link.stat().st_mtime == 0, f"{text}it. {hint}")


@contextmanager
def own_database(uri: str) -> Iterator[tuple[str, psycopg.Connection]]:
    """Yield the address of a database that is dropped afterwards, and a connection to it."""
    with psycopg.connect(uri, autocommit=True) as server:
        name = f"check_{server.info.backend_pid}"
        server.execute(f"CREATE DATABASE {name}")
        try:
            own = psycopg.conninfo.make_conninfo(uri, dbname=name)
            with psycopg.connect(own, autocommit=True) as database:
                yield own, database
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


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

    Before the last step, the last batch is made one that Spark has not recorded, as if the query
    had died. Returns the query that repeats it.
    """
    for step in steps[:-1]:
        step()
        run_to_end(query(), folder)
    forget_last_commit(folder / "checkpoint")
    steps[-1]()
    repeating = run_to_end(query(), folder)
    run_to_end(query(), folder)  # `availableNow` may be one batch, the repeated one
    return repeating


def run_to_end(writer: DataStreamWriter, folder: Path) -> StreamingQuery:
    """Run a query over what there is now; raise `Wrong` with its error if it fails."""
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    with suppress(StreamingQueryException):  # reported below, in one line
        query.awaitTermination(SECONDS)
    error = last_error(query) or (query.isActive and f"no error in {SECONDS} s, and did not end")
    query.stop()
    expect(not error, f"In a real query your class raised {error}")
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
    state.fill(SimpleNamespace(add=lambda row, token=None: rows.append(row)))
    return rows


def snapshot_of(state: Any) -> Any:
    """Return a snapshot as it comes back from the source's log."""
    return json.loads(json.dumps(state.snapshot()))


class Follower:
    """Calls `look` and `read` as the builder does, and remembers the batches."""

    def __init__(self, answer: Any, connection: Any = None, **options: Any) -> None:
        self._look, self._read = answer
        self._context = context_of(**options)
        self._context.connection, self._context.offset = connection, None
        self._batches: list[tuple[str, Any, Any, list[Any]]] = []

    @property
    def rows(self) -> list[Any]:
        return sorted(row for *_, rows in self._batches for row in rows)

    def read_batch(self) -> None:
        offset = dict[str, Any](self._context.offset or {})
        for name, split in self._look(self._context).items():
            first, end = (split.first, split.end) if isinstance(split, Split) else split
            start = offset.setdefault(str(name), first)
            if end > start:
                self._batches.append((name, start, end, self._rows(name, start, end)))
                offset[name] = end
        self._context.offset = offset

    def must_read(self, rows: list[Any], why: str, patience: float = PATIENCE) -> None:
        """Raise `Wrong` unless all batches soon have these rows, and the same ones once more."""
        deadline = time.monotonic() + patience
        self.read_batch()
        while self.rows != rows and time.monotonic() < deadline:
            time.sleep(0.05)
            self.read_batch()
        must_be(self.rows, rows, "Your functions read", why)
        for name, start, end, first in self._batches:
            what = f"Called again for split {name!r} from {start} to {end}, `read` returned"
            must_be(self._rows(name, start, end), first, what, "`read` must be repeatable.")

    def _rows(self, name: str, start: Any, end: Any) -> list[Any]:
        return sorted(tuple(row) for row in self._read(self._context, name, start, end) or ())
