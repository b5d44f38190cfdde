"""What a builder's function learns about where it runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pyspark.sql.types import StructType

from tutorial_pkg.core.options import Option, OptionValues, boolean

Position = int | str
FAIL_ON_DATA_LOSS = Option(
    "failOnDataLoss",
    boolean,
    True,
    "whether the query ends when rows are gone that it has not read, or warns",
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SourceContext:
    """For `create`: this is instance `index` of `count`, from 0, in a query with these options."""

    index: int
    count: int
    options: OptionValues


@dataclass(frozen=True)
class SplitContext:
    """For the functions of a replayable source: the options of the query, and its `schema`.

    `connection` is what `connect` returned in this process. `batch` is true in `spark.read`.
    `offset` tells `splits` where the query stands: a position for each split that it knows, None
    when it begins. `draining` tells `latest` that the query has the trigger `availableNow`, and
    ends at the position that it returns now.
    """

    options: OptionValues
    connection: Any = None
    batch: bool = False
    offset: Mapping[str, Position] | None = None
    schema: StructType = field(default_factory=StructType)
    draining: bool = False

    def lost(self, what: str) -> None:
        """Rows are gone that were not read: raise `LookupError`, or warn, once.

        The option `failOnDataLoss` decides: declare it by `.options(FAIL_ON_DATA_LOSS)`.
        """
        text = (
            f"{what}: rows may be lost. With the option `failOnDataLoss` false the query warns, "
            "and goes on with what there is"
        )
        if self.options.failOnDataLoss:
            raise LookupError(text)
        _warn(text)


@lru_cache(1000)
def _warn(text: str) -> None:
    """Once for each text: a source is asked again and again."""
    _log.warning("%s", text)


@dataclass(frozen=True)
class SinkContext:
    """For `create`: the task with partition `index` of micro-batch `batch` of a query.

    `query` is the same after a restart from the checkpoint, so (query, batch) names a piece of
    work for ever. With `df.write`, `streaming` is false, `query` names this job alone, and `batch`
    is 0. With `overwrite` the rows replace all existing ones: see `also_overwrite`.
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

    The fields are those of a `SinkContext`.
    """

    query: str
    batch: int
    options: OptionValues
    streaming: bool = True
    overwrite: bool = False


@dataclass(frozen=True)
class TargetContext:
    """For `check`, before a query or a job runs: `schema` is that of the rows to write."""

    schema: StructType
    options: OptionValues
    streaming: bool = True
    overwrite: bool = False
