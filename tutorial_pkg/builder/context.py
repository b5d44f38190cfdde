"""What a function of a builder is told about where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tutorial_pkg.core.options import OptionValues

Position = int | str


@dataclass(frozen=True)
class SourceContext:
    """For `create`: this is instance `index` of `count`, from 0, in a query with these options."""

    index: int
    count: int
    options: OptionValues


@dataclass(frozen=True)
class SplitContext:
    """For `splits`, `latest` and `read` of a replayable source: the options of the query.

    `connection` is what `connect` returned in this process. `batch` is true in `spark.read`.
    `offset` tells `splits` where the query stands: a position for each split that it knows, None
    when it begins.
    """

    options: OptionValues
    connection: Any = None
    batch: bool = False
    offset: Mapping[str, Position] | None = None


@dataclass(frozen=True)
class SinkContext:
    """For `create`: the task with partition `index` of micro-batch `batch` of a query.

    `query` is the same after a restart from the checkpoint, so (query, batch) names a piece of
    work for ever.
    """

    query: str
    batch: int
    index: int
    options: OptionValues


@dataclass(frozen=True)
class BatchContext:
    """For `commit` and `abort`, which run once for a micro-batch, in the driver."""

    query: str
    batch: int
    options: OptionValues
