"""The contexts that a builder passes to its functions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from pyspark.sql.types import StructType

from tutorial_pkg.builder.functions import NONE, Retries
from tutorial_pkg.core.filters import Comparison
from tutorial_pkg.core.options import Option, OptionValues, boolean, local_directory

Position = int | str
FAIL_ON_DATA_LOSS = Option(
    "failOnDataLoss",
    boolean,
    True,
    "whether the query ends when unread rows are gone, or logs a warning",
)
DEAD_LETTERS = Option(
    "deadLetters",
    local_directory,
    None,
    "a folder for this query alone, which the driver and the workers share: rows that don't fit "
    "are written there and left out. Without it, they end the query",
)
Answer = TypeVar("Answer")

_warn_once = lru_cache(1000)(logging.getLogger(__name__).warning)


@dataclass(frozen=True)
class SourceContext:
    """For `create`: this is instance `index` of `count`, from 0, in a query with these options.

    Among them are the builder's own, by the names that queries use: `options.maxRowsPerTrigger`.
    """

    index: int
    count: int
    options: OptionValues


@dataclass(frozen=True)
class ListenContext(SourceContext):
    """For `listen`, which waits for `stopped`, and may set `connected`.

    `stopped` is set when the query stops. After `connected`, or a row, a later loss of the
    connection has all of `retrySeconds` again.
    """

    stopped: threading.Event = field(default_factory=threading.Event)
    connected: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Split:
    """One part of a replayable source, as `look` sees it now.

    Args:
        first: where a query that does not know this split yet starts to read.
        end: the position after the last row that there is now.
        identity: changes when something else takes over the name, such as a re-created table.
        payload: in a batch, what `read` needs in its task.
    """

    first: Position
    end: Position
    identity: str = ""
    payload: Any = None


@dataclass(frozen=True)
class SplitContext:
    """What the functions of a replayable or a cursor source learn about the query.

    Args:
        connection: what `.connect` returned in this process.
        batch: true in `spark.read`.
        offset: for `look` and `splits`: the query's positions by split name; None at the start.
        draining: for `look`: the query ends at the positions that it returns (`availableNow`).
        identity: for `bound` and `read`: that of the split.
        payload: for `read` in a batch: that of the split.
        filters: in a batch: conditions that all wanted rows fulfil. `look` and `read` may leave out
            rows that don't, but need not: Spark evaluates its filters again.
    """

    options: OptionValues
    connection: Any = None
    batch: bool = False
    offset: Mapping[str, Position] | None = None
    schema: StructType = field(default_factory=StructType)
    draining: bool = False
    identity: str = ""
    payload: Any = None
    filters: tuple[Comparison, ...] = ()
    retries: Retries = field(default=NONE, repr=False)

    def retry(self, work: Callable[[], Answer]) -> Answer:
        """Call `work()` within `read`, and call it again after transient errors."""
        return self.retries.patiently(work)

    def lost(self, what: str) -> None:
        """Report that unread rows are gone. Declare `.options(FAIL_ON_DATA_LOSS)`.

        Raises `LookupError`, or logs a warning once if that option is false.
        """
        text = (
            f"{what}: rows may be lost. Set the option `failOnDataLoss` to false to log a warning "
            "instead and read what is left"
        )
        if self.options.failOnDataLoss:
            raise LookupError(text)
        _warn_once(text)


@dataclass(frozen=True)
class SinkContext:
    """For `create`: the task with partition `index` of micro-batch `batch` of a query.

    (`query`, `batch`) names the same micro-batch after a restart. With `df.write`, `streaming` is
    false, `query` names this job alone, and `batch` is 0. With `overwrite` the rows replace all
    existing ones.
    """

    query: str
    batch: int
    index: int
    options: OptionValues
    streaming: bool = True
    overwrite: bool = False


@dataclass(frozen=True)
class BatchContext:
    """For `commit` and `abort`, which run once for a micro-batch, beside the driver.

    `run` changes at each start of the query, and `checkpoint` is its location, or None if there is
    none. The other fields are those of a `SinkContext`.
    """

    query: str
    batch: int
    options: OptionValues
    streaming: bool = True
    overwrite: bool = False
    run: str = ""
    checkpoint: str | None = None


@dataclass(frozen=True)
class TargetContext:
    """For `check`, before a query or a job runs: `schema` is that of the rows to write."""

    schema: StructType
    options: OptionValues
    streaming: bool = True
    overwrite: bool = False
