"""The source: the driver asks for partitions and offsets, tasks read what is between two."""

from __future__ import annotations

from tutorial_pkg.builder import Position, SourceBuilder, SplitContext
from tutorial_pkg.connectors.kafka.options import CUT, EARLIEST, FORMAT, LATEST, MOST, READ, schema
from tutorial_pkg.connectors.kafka.partitions import MADE_AGAIN, Partition
from tutorial_pkg.connectors.kafka.records import read
from tutorial_pkg.connectors.kafka.topics import Topics


def splits(context: SplitContext) -> dict[str, Position]:
    """The existing partitions, each with the offset to begin at.

    One that appears while the query runs is read from its beginning.
    """
    cluster: Topics = context.connection
    options, found = context.options, cluster.look()
    if options.endingOffsets is not None and not context.batch:
        raise ValueError("option `endingOffsets` is for `spark.read`: a stream has no end")
    if context.offset is not None:
        _check_vanished(context)
        return {str(each): held.first for each, held in found.items()}
    place = options.startingOffsets
    if place is None:
        place = EARLIEST if context.batch else LATEST
    return {
        str(each): held.offset_at(place, each, "startingOffsets") for each, held in found.items()
    }


def latest(context: SplitContext, split: str, start: int) -> int:
    """How far a partition goes, as `splits` has just seen it."""
    partition, place = Partition.parse(split), context.options.endingOffsets
    held = context.connection.ranges[partition]
    if start < held.first:
        context.lost(partition.lost_text(start, f"it begins at {held.first} now"))
    if start > held.end:
        context.lost(partition.lost_text(start, f"it ends at {held.end} now"))
    offset: int = held.offset_at(LATEST if place is None else place, partition, "endingOffsets")
    if place is not None and offset < start:
        raise ValueError(
            f"option `endingOffsets`: partition `{partition.name}` ends at {offset}, before it "
            f"begins, at {start}"
        )
    return offset


def _check_vanished(context: SplitContext) -> None:
    """A topic that was re-created under its old name has a new id."""
    there = context.connection.ranges
    names_now = {each.name for each in there}
    for partition in map(Partition.parse, context.offset or ()):
        if partition not in there:
            again = partition.name in names_now
            what = MADE_AGAIN if again else "it is not there any more"
            context.lost(partition.lost_text(None, what))


source = (
    SourceBuilder.replayable(FORMAT, schema, splits, latest, read)
    .retry(seconds=0)  # it waits by itself
    .connect(Topics)
    .close(Topics.close)
    .limit(MOST)
    .distributed(1, CUT)
    .options(*READ)
    .build()
)
