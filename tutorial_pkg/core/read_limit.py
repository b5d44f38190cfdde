"""How much of a stream one micro-batch takes, as the options of a source say it to Spark."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
)

from tutorial_pkg.core.options import OptionValues


def read_limit(options: OptionValues) -> ReadLimit:
    """That of `maxRowsPerTrigger`, or of `maxBytesPerTrigger`, or none.

    Spark hands back one limit only, so a source that has both options looks at them itself.
    """
    if options.maxRowsPerTrigger:
        return ReadMaxRows(options.maxRowsPerTrigger)
    if options.maxBytesPerTrigger:
        return ReadMaxBytes(options.maxBytesPerTrigger)
    return ReadAllAvailable()
