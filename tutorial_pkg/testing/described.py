"""What users say about the source or the sink that is to be examined: one small object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

LIMIT = 10  # rows a batch, under the options that `StreamSource.limit` names


def _nothing() -> None:
    """Nothing is held, so nothing is to be freed."""


@dataclass(frozen=True)
class StreamSource:
    """A streaming source, and how to give it rows that carry the numbers 0, 1, 2 …

    format: what `spark.readStream.format` takes, or, for a source in Python, its `DataSource`
        class, which is registered, also in the drivers that are killed.
    options: for the query.
    schema: for formats that want to be told it, as Spark's files do.
    number: an SQL expression over the source's columns that is a row's number. None for a source
        whose rows carry none: then only what can be told without is tried.
    feed: a function that gives the source rows with these numbers, and returns when they are
        safely there. None for a source that makes the rows 0, 1, 2 … by itself.
    feed_when_stopped: whether it can be fed while no query runs, as a file can, and a port cannot.
    limit: options under which a batch has at most 10 rows; None if there are none.
    other_parallelism: options under which more tasks read; None if there are none.
    restarts: whether a query that was stopped can go on; if not, each promise gets a new one.
    not_claimed: names of promises that this source does not make, each with the reason.
    close: frees what `feed` holds: a socket, a server.
    """

    format: str | type[DataSource]
    options: Mapping[str, object] = field(default_factory=dict)
    schema: str | None = None
    number: str | None = "value"
    feed: Callable[[Sequence[int]], None] | None = None
    feed_when_stopped: bool = True
    limit: Mapping[str, object] | None = None
    other_parallelism: Mapping[str, object] | None = None
    restarts: bool = True
    not_claimed: Mapping[str, str] = field(default_factory=dict)
    close: Callable[[], None] = _nothing

    @property
    def python(self) -> bool:
        """Whether its class is known, so that it can be looked into."""
        return isinstance(self.format, type)

    @property
    def unread(self) -> bool:
        """Whether rows can wait for a query: while none runs, or from one that failed."""
        return self.restarts or bool(self.feed and self.feed_when_stopped)


@dataclass(frozen=True)
class StreamSink:
    """A streaming sink, and how to see what is in it.

    The sink gets one column, `value STRING`: a row's number, in some rows with text behind it.

    format: what `df.writeStream.format` takes, or, for a sink in Python, its `DataSource` class,
        which is registered, also in the drivers that are killed.
    read: a function that returns all values that a reader sees now, in any order; an empty list
        before the first one. It is called while the query writes, too.
    options: for the query.
    columns: SQL expressions over `value`, for a sink that wants other columns.
    at_least_once: whether it says that a row may be there more than once, after a batch was
        repeated; then it is examined for missing rows, and not for repeated ones.
    restarts: whether a query that was stopped can go on; if not, each promise gets a new one.
    not_claimed: names of promises that this sink does not make, each with the reason.
    close: frees what `read` holds: a connection, a server.
    """

    format: str | type[DataSource]
    read: Callable[[], Sequence[str | None]]
    options: Mapping[str, object] = field(default_factory=dict)
    columns: Sequence[str] = ("value",)
    at_least_once: bool = False
    restarts: bool = True
    not_claimed: Mapping[str, str] = field(default_factory=dict)
    close: Callable[[], None] = _nothing


# Each trial has a folder of its own, so what is examined is described anew for each.
DescribeSource = Callable[[Path], StreamSource]
DescribeSink = Callable[[Path], StreamSink]


def format_name(spark: SparkSession, of: str | type[DataSource]) -> str:
    """The name to give to `format(…)`; a class is registered first."""
    if isinstance(of, str):
        return of
    spark.dataSource.register(of)
    return of.name()


def as_options(*given: Mapping[str, object] | None) -> dict[str, str]:
    """Options as Spark wants them; later ones win."""
    return {name: str(value) for options in given for name, value in (options or {}).items()}
