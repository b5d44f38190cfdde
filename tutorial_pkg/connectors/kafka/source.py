"""The source: `look` asks for partitions and offsets, `read` runs in a task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa

from tutorial_pkg.builder import SourceBuilder, Split, SplitContext
from tutorial_pkg.connectors.kafka.options import (
    CUT,
    EARLIEST,
    FORMAT,
    LATEST,
    MOST,
    READ,
    TIMEOUT,
    Places,
    schema,
)
from tutorial_pkg.connectors.kafka.records import Records
from tutorial_pkg.connectors.kafka.topics import Partition, Topics


def look(context: SplitContext) -> dict[str, Split]:
    """Return the partitions and their offsets. One that appears later is read from its start."""
    options = context.options
    if options.endingOffsets is not None and not context.batch:
        raise ValueError("option `endingOffsets` is for `spark.read`: a stream has no end")
    start = options.startingOffsets
    if start is None:
        start = EARLIEST if context.batch else LATEST
    splits = {}
    for partition in context.connection.partitions():
        first, end = partition.first, partition.end
        if context.offset is None:
            first = offset_of(partition, start, "startingOffsets")
        if options.endingOffsets is not None:
            end = offset_of(partition, options.endingOffsets, "endingOffsets")
            if end < first:
                raise ValueError(
                    f"option `endingOffsets`: partition `{name_of(partition)}` ends at {end}, "
                    f"before it starts, at {first}"
                )
        splits[name_of(partition)] = Split(first, end, partition.id)
    return splits


def name_of(partition: Partition) -> str:
    """Return the name that Kafka's own tools use, such as `orders-0`."""
    return f"{partition.topic}-{partition.number}"


def offset_of(partition: Partition, places: Places, option: str) -> int:
    """Return the offset that an option means. Raises `ValueError` if it omits the partition."""
    if isinstance(places, int):
        offset: int | None = places
    else:
        offset = places.get(partition.topic, {}).get(partition.number)
    if offset is None:
        raise ValueError(
            f"option `{option}` must name every partition, and lacks `{name_of(partition)}`; "
            "-2 stands for the earliest offset, -1 for the latest"
        )
    return {EARLIEST: partition.first, LATEST: partition.end}.get(offset, offset)


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the records of a partition from `start` up to, but without, `end`."""
    topic, _, number = split.rpartition("-")
    if context.connection.id_of(topic) not in (context.identity, None):
        # A repeated batch may find a different topic of that name.
        context.lost(f"partition `{split}`: its topic was re-created since the batch was planned")
        return
    with closing(Records(context, topic, int(number), start, end)) as records:
        yield from records.batches()


source = (
    SourceBuilder.replayable(FORMAT, schema, look=look, read=read)
    .retry(pause=0.2, option=TIMEOUT)
    .connect(Topics)
    .close(Topics.close)
    .limit(MOST)
    .distributed(1, CUT)
    .options(*READ)
    .build()
)
