"""What users say about the source or sink to examine: one small object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource

LIMIT = 10  # rows a batch, under the options that `StreamSource.limit` names
_BUILDER = "tutorial_pkg.builder"


def _nothing() -> None:
    """Nothing was opened, so there is nothing to free."""


@dataclass(frozen=True)
class Server:
    """The server that a connector talks to, as one that can be away, restarted and slow.

    stop: ends it, as hard as in real life. start: starts it again, at the same address and
    with what is on its disk, and returns when it answers. processes: the numbers of its processes,
    which the kit pauses for some seconds to make the server slow; without it that is not tried.
    """

    stop: Callable[[], object]
    start: Callable[[], object]
    processes: Callable[[], Iterable[int]] | None = None


class _Described:
    """What follows for both from their descriptions."""

    format: str | type[DataSource]
    options: Mapping[str, object]
    server: Server | None

    @property
    def python(self) -> bool:
        """Whether its class is known, so that the kit can look inside."""
        return isinstance(self.format, type)

    @property
    def built(self) -> bool:
        """Whether a builder has made its class, of functions."""
        bases = self.format.__mro__ if isinstance(self.format, type) else ()
        return any(base.__module__.startswith(_BUILDER) for base in bases)

    @property
    def slow_server(self) -> bool:
        """Whether its server can be paused."""
        return self.server is not None and self.server.processes is not None

    def _chosen(self, role: str) -> Any:
        """What the options choose of a builder's `Format`; of all else, the format itself."""
        if self.built and hasattr(self.format, role):
            made: Any = self.format(CaseInsensitiveDict(as_options(self.options)))  # type: ignore
            return getattr(made, role)()
        return self.format

    def _overrides(self, role: str, method: str) -> bool:
        plain = getattr(DataSource, method)
        return self.python and getattr(self._chosen(role), method) is not plain


@dataclass(frozen=True)
class StreamSource(_Described):
    """A streaming source, and how to give it rows that carry the numbers 0, 1, 2 …

    format: what `spark.readStream.format` takes, or, for a source in Python, its `DataSource`
        class, which is registered, also in the drivers that are killed.
    options: for the query. One that looks for rows now and then must look each second: what has
        not come after two seconds of quiet counts as lost.
    schema: for formats that need one, as Spark's files do.
    number: an SQL expression over the source's columns that is a row's number. None for a source
        whose rows carry none: then only promises that need no number are tried.
    feed: a function that gives the source rows with these numbers, in this order, and returns when
        they are safely there. A number may be smaller than those before. None for a source that
        makes the rows 0, 1, 2 … by itself.
    feed_when_stopped: whether it can be fed while no query runs, as a file can, and a port cannot.
    feed_halves: a generator that gives the source the row with this number in two halves, with a
        `yield` in between; for sources whose rows can be seen half written.
    feed_split: a function that gives rows with these numbers to the split (a file, a partition of
        a topic, a table) with this index; a missing one is created, even for no rows.
    row: a function that returns what the row with this number must have: column names and values,
        a struct's as a tuple; of a FLOAT as it is in 32 bits.
    from_now: whether it begins with what comes after its first query's start, as Kafka's `latest`.
    limit: options under which a batch has at most 10 rows; None if there are none.
    other_parallelism: options under which more tasks read; None if there are none.
    restarts: whether a query that was stopped can go on; if not, each promise gets a new one.
    not_claimed: names of promises that this source does not make, each with the reason.
    server: what the source talks to, if it can be stopped and started here.
    close: closes what the functions have opened: a socket, a connection.
    """

    format: str | type[DataSource]
    options: Mapping[str, object] = field(default_factory=dict)
    schema: str | None = None
    number: str | None = "value"
    feed: Callable[[Sequence[int]], None] | None = None
    feed_when_stopped: bool = True
    feed_halves: Callable[[int], Iterator[None]] | None = None
    feed_split: Callable[[int, Sequence[int]], None] | None = None
    row: Callable[[int], Mapping[str, object]] | None = None
    from_now: bool = False
    limit: Mapping[str, object] | None = None
    other_parallelism: Mapping[str, object] | None = None
    restarts: bool = True
    not_claimed: Mapping[str, str] = field(default_factory=dict)
    server: Server | None = None
    close: Callable[[], None] = _nothing

    @property
    def unread(self) -> bool:
        """Whether rows can wait for a query: while none runs, or from one that failed."""
        return self.restarts or self.waiting

    @property
    def seen(self) -> bool:
        """Whether the kit can see which rows have come, and can make more come."""
        return bool(self.feed and self.number)

    @property
    def waiting(self) -> bool:
        """Whether rows can wait while no query runs."""
        return bool(self.feed and self.feed_when_stopped)

    @property
    def logged(self) -> bool:
        """Whether its class says that its rows come by way of a log, which a query must fill."""
        return bool(getattr(self._chosen("source"), "reads_log", False))

    @property
    def from_start(self) -> bool:
        return not self.from_now

    @property
    def batch(self) -> bool:
        """Whether `spark.read` knows it, too."""
        return self._overrides("source", "reader")


@dataclass(frozen=True)
class StreamSink(_Described):
    """A streaming sink, and how to see what is in it.

    The sink gets the column `value STRING`, a row's number, in some rows followed by text, and
    those of `types`.

    format: what `df.writeStream.format` takes, or, for a sink in Python, its `DataSource` class,
        which is registered, also in the drivers that are killed.
    read: a function that returns all values that a reader sees now, in any order; an empty list
        before the first one. It is called while the query writes, too. With `types` it returns
        rows: the value, then the others, as `collect()` would.
    options: for the query.
    columns: SQL expressions over the columns, for a sink that wants other ones; all if empty.
    types: more columns, each with its type, as in `{"at": "TIMESTAMP"}`: of BOOLEAN, INT, LONG,
        DOUBLE, DECIMAL(12,3), DECIMAL(38,18) (more digits than a float holds), STRING, BINARY,
        DATE, TIMESTAMP. A DOUBLE is NaN or infinite now and then: a sink that refuses that
        names `nulls` in `not_claimed`.
    at_least_once: whether the sink allows a row to be there more than once after a batch was
        repeated; then it is examined for missing rows, but not for repeated ones.
    restarts: whether a query that was stopped can go on; if not, each promise gets a new one.
    not_claimed: names of promises that this sink does not make, each with the reason.
    server: what the sink talks to, if it can be stopped and started here.
    close: closes what the functions have opened: a connection, a file.
    """

    format: str | type[DataSource]
    read: Callable[[], Sequence[Any]]
    options: Mapping[str, object] = field(default_factory=dict)
    columns: Sequence[str] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    at_least_once: bool = False
    restarts: bool = True
    not_claimed: Mapping[str, str] = field(default_factory=dict)
    server: Server | None = None
    close: Callable[[], None] = _nothing

    @property
    def seen(self) -> bool:
        """Whether the kit can see which rows are there: `read` shows them."""
        return True

    @property
    def once(self) -> bool:
        return not self.at_least_once

    @property
    def batch(self) -> bool:
        """Whether `df.write` knows it, too."""
        return self._overrides("sink", "writer")


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
