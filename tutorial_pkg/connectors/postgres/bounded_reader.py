"""The builder's reader, for streams in which only the database can tell how far a batch goes."""

from __future__ import annotations

from typing import ClassVar

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from tutorial_pkg.builder.replayable_source import (
    BuiltReplayableReader,
    BuiltReplayableSource,
    Positions,
)
from tutorial_pkg.core.options import OptionValues


class BoundedReader(BuiltReplayableReader):
    """`latest` keeps to `options.maxRowsPerTrigger` and `options.until` by itself.

    Keys have gaps, and places in a log are bytes: neither counts rows. `until` is where a query
    with the trigger `availableNow` ends, else None. Its functions find the query's schema in
    `options.schema`.
    """

    source: ClassVar[type[BuiltReplayableSource]]

    def __init__(self, schema: StructType, options: OptionValues) -> None:
        options.schema, options.until = schema, None
        super().__init__(self.source.parts, schema, options)
        self._options = options

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._options.until = self.end_of_all()

    def reportLatestOffset(self) -> Positions | None:
        """How far the stream could be read now, without a limit: what Spark shows as lag."""
        if self._newest is None:
            return None
        return dict.fromkeys(self._newest, self.end_of_all())

    def end_of_all(self) -> int:
        """The position behind everything that is there now."""
        raise NotImplementedError
