"""StreamSource, StreamSink and Server: your description of what to examine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource

LIMIT = 10  # rows in a batch, under the options of `StreamSource.limit`
BUILDER = "tutorial_pkg.builder"  # the options of its `Format` choose among several classes


@dataclass(frozen=True)
class Server:
    """The server that a connector talks to, if the kit may stop, start and pause it.

    stop: Ends it, as abruptly as in real life.
    start: Starts it again, at the same address and with the data on its disk, and returns when it
        responds.
    processes: Returns its process ids. The kit pauses them to make the server slow. Without it,
        that is not tried.
    """

    stop: Callable[[], object]
    start: Callable[[], object]
    processes: Callable[[], Iterable[int]] | None = None


class _Described:
    """Properties of sources and sinks that follow from their descriptions."""

    format: str | type[DataSource]
    options: Mapping[str, object]

    @property
    def python(self) -> bool:
        """Whether its Python class is described."""
        return isinstance(self.format, type)

    def _chosen(self, role: str) -> Any:
        """Return the class that options choose of a builder's `Format`, or else the format."""
        bases = self.format.__mro__ if isinstance(self.format, type) else ()
        if any(base.__module__.startswith(BUILDER) and hasattr(base, role) for base in bases):
            made: Any = self.format(CaseInsensitiveDict(as_options(self.options)))  # type: ignore
            return getattr(made, role)()
        return self.format

    def _overrides(self, role: str, method: str) -> bool:
        plain = getattr(DataSource, method)
        return self.python and getattr(self._chosen(role), method) is not plain


@dataclass(frozen=True)
class StreamSource(_Described):
    """A streaming source, and how to feed it rows with the numbers 0, 1, 2 …

    Only `format` is required. The more you describe, the more promises are tried.

    format: A name for `spark.readStream.format`, or the `DataSource` class of a Python source. A
        class is registered for you, also in the drivers that are killed.
    options: Options of the query. A source that polls must poll every second: a row that is not
        there after two quiet seconds counts as missing.
    schema: A schema, for formats that need one, such as Spark's files.
    number: An SQL expression over the source's columns that is a row's number. None if rows have
        no number: then only promises that need no number are tried.
    feed: A function that feeds rows with these numbers, in this order, and returns when they are
        stored. A number may be smaller than earlier ones. None for a source that creates the rows
        0, 1, 2 … itself.
    feed_when_stopped: Whether it can be fed while no query runs: a file can, a port can't.
    feed_halves: A generator that feeds the row with this number in two halves, with a `yield`
        between them, for sources that can see half-written rows.
    feed_split: A function that feeds rows with these numbers to the split with this index: a file,
        a partition of a topic, a table. It creates a missing split, even for no rows.
    row: A function that returns the expected row for a number: column names and values. A struct
        is a tuple, and a FLOAT is rounded to 32 bits.
    from_now: Whether a new query starts with the rows that arrive after its start, as with Kafka's
        `latest`.
    limit: Options under which a batch has at most 10 rows; None if there are none.
    other_parallelism: Options under which more tasks read; None if there are none.
    restarts: Whether a stopped query can resume. If not, each promise gets a new query.
    not_claimed: Names of promises that this source doesn't make, each with the reason.
    server: The source's server, if it can be stopped and started here.
    close: Closes what the functions have opened, such as a connection.
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
    close: Callable[[], object] = bool  # nothing

    @property
    def waiting(self) -> bool:
        """Whether rows can wait while no query runs."""
        return bool(self.feed and self.feed_when_stopped)

    @property
    def unread(self) -> bool:
        """Whether rows can wait for a query: while none runs, or from one that failed."""
        return self.restarts or self.waiting

    @property
    def seen(self) -> bool:
        """Whether the kit can feed rows and recognize them."""
        return bool(self.feed and self.number)

    @property
    def logged(self) -> bool:
        """Whether its class says that it reads a log, which a running query must fill first."""
        return bool(getattr(self._chosen("source"), "reads_log", False))

    @property
    def from_start(self) -> bool:
        return not self.from_now

    @property
    def batch(self) -> bool:
        """Whether it works with `spark.read`, too."""
        return self._overrides("source", "reader")


@dataclass(frozen=True)
class StreamSink(_Described):
    """A streaming sink, and how to read back what is in it.

    The sink gets the column `value STRING`, in most rows a number, and the columns of `types`.

    format: A name for `df.writeStream.format`, or the `DataSource` class of a Python sink. A class
        is registered for you, also in the drivers that are killed.
    read: A function that returns all values that a reader sees now, in any order; an empty list
        before the first batch. A second thread calls it while the query writes. With `types` it
        returns rows: the value, then the other columns, as `collect()` would.
    options: Options of the query.
    columns: SQL expressions over the columns, for a sink that needs other columns.
    types: More columns, each with its type, as in `{"at": "TIMESTAMP"}`: BOOLEAN, INT, LONG,
        DOUBLE, DECIMAL(12,3), DECIMAL(38,18), STRING, BINARY, DATE or TIMESTAMP. Some DOUBLEs are
        NaN or infinite; a sink that refuses those names `nulls` in `not_claimed`.
    at_least_once: Whether a row may be duplicated after a batch was repeated. Then the kit looks
        for missing rows, but not for duplicates.
    restarts: Whether a stopped query can resume. If not, each promise gets a new query.
    not_claimed: Names of promises that this sink doesn't make, each with the reason. Also names of
        values that it doesn't keep: `awkward_text`, `nulls`, `empty_text`, `equal_rows`.
    server: The sink's server, if it can be stopped and started here.
    close: Closes what the functions have opened, such as a connection.
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
    close: Callable[[], object] = bool  # nothing
    seen: ClassVar[bool] = True  # `read` shows which rows arrive

    @property
    def once(self) -> bool:
        return not self.at_least_once

    @property
    def batch(self) -> bool:
        """Whether it works with `df.write`, too."""
        return self._overrides("sink", "writer")


def format_name(spark: SparkSession, described: str | type[DataSource]) -> str:
    """Return the name for `format(…)`; a class is registered first."""
    if isinstance(described, str):
        return described
    spark.dataSource.register(described)
    return described.name()


def as_options(*options: Mapping[str, object] | None) -> dict[str, str]:
    """Return options as Spark needs them; later ones win."""
    return {name: str(value) for some in options for name, value in (some or {}).items()}
