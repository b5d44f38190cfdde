"""Try a learner's source or sink: its functions alone, in a real query, or with the kit."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from spark_connector_tests import Report
from tutorial_pkg.core.errors import last_error
from workbook.checks.verdict import Wrong, expect

SECONDS = 60  # for what takes milliseconds: a busy machine passes


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
