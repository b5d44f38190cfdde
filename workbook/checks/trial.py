"""Try a learner's source or sink: its functions alone, in a real query, or with the kit."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from spark_connector_tests import Report
from tutorial_pkg.builder import Split
from tutorial_pkg.core.errors import last_error
from workbook.checks.verdict import Wrong, expect, must_be, show

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
def own_database(uri: str) -> Iterator[str]:
    """Yield the address of a database that is dropped afterwards."""
    with psycopg.connect(uri, autocommit=True) as server:
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
    """Raise `Wrong` for the first promise that is broken."""
    for verdict in report.verdicts:
        if verdict.name in report.broken:
            seen = " ".join(verdict.seen.split())[:300]
            raise Wrong(f"{verdict.name}: {seen} → {verdict.remedy}")


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


# ---- The builder's functions ---------------------------------------------------------------------


def context_of(index: int = 0, count: int = 1, **options: Any) -> SimpleNamespace:
    """Return what the builder passes to `create`."""
    return SimpleNamespace(index=index, count=count, options=SimpleNamespace(**options))


class Rows:
    """Takes the place of the builder's buffer, and remembers what `fill` adds."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.closed = False

    def add(self, row: Any, token: Any = None) -> None:
        self.rows.append(row)

    def close(self) -> None:
        self.closed = True


def filled(state: Any) -> Rows:
    """Return what one `fill` adds."""
    buffer = Rows()
    state.fill(buffer)
    return buffer


# ---- A pair (look, read) -------------------------------------------------------------------------


def two_functions(answer: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the answer, or raise `Wrong` if it is not a pair of functions."""
    pair = isinstance(answer, tuple | list) and len(answer) == 2 and all(map(callable, answer))
    expect(pair, f"You returned {show(answer)}; expected two functions. Try (look, read).")
    look, read = answer
    return look, read


class Follower:
    """Calls `look` and `read` as the builder does, and remembers the batches."""

    def __init__(self, answer: Any, connection: Any, **options: Any) -> None:
        self._look, self._read = two_functions(answer)
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
