"""The source of `objects`: a tape of objects for a stream, shares of them for a batch."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from tutorial_pkg.builder import OptionValues, SourceBuilder, Split, SplitContext
from tutorial_pkg.connectors.objects.object_log import Content
from tutorial_pkg.connectors.objects.options import FORMAT, READ
from tutorial_pkg.connectors.objects.reading import rows_of, schema_of
from tutorial_pkg.connectors.objects.tape import (
    BLOCK,
    Part,
    Search,
    Tape,
    length,
    matches,
    parts,
)
from tutorial_pkg.connectors.store import ReplacedError, Store
from tutorial_pkg.core.worker import cores

LEAST_LENGTH = 1000  # on the tape, for a task: ten small objects, or a megabyte


def look(context: SplitContext) -> dict[str, Split]:
    """Return one split for a stream, named after its tape, and one for each task of a batch."""
    if context.batch:
        shares = enumerate(_shares(context.options))
        return {str(number): Split(0, 1, payload=share) for number, share in shares}
    searches: dict[str, Search] = context.connection
    offset = context.offset or dict.fromkeys(searches or [uuid.uuid4().hex], 0)
    for name, position in offset.items():
        if name not in searches:
            searches[name] = Search(context.options, name, int(position))
    return {name: Split(0, searches[name].look()) for name in offset}


def _shares(options: OptionValues) -> Iterator[list[Part]]:
    """Yield all objects, cut into about equal shares."""
    news = Content(Store(options, options.path)).news()
    objects = sorted(info for info in news if matches(options, info))
    ends = list(accumulate(map(length, objects), initial=0))
    size = max(LEAST_LENGTH, -(-ends[-1] // (options.parallelism or cores())))
    for start in range(0, ends[-1], size):
        share = list(parts(zip(ends, objects, strict=False), start, start + size))
        if share:
            yield share


def bound(context: SplitContext, split: str, start: int, end: int, objects: int | None) -> int:
    """Return where a batch of this many objects, and of `maxBytesPerTrigger`, ends."""
    options = context.options
    if options.maxBytesPerTrigger:
        end = min(end, start + max(1, options.maxBytesPerTrigger // BLOCK))
    if objects is None:
        return end
    following = (place for place, _ in Tape(options, split).places(start, end) if place > start)
    return next((place for count, place in enumerate(following, 1) if count == objects), end)


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[Any]:
    options = context.options
    work: Iterable[Part] = context.payload if context.batch else ()
    if not context.batch:
        work = parts(Tape(options, split).places(start, end), start, end)
    store = Store(options, options.path)
    for part in work:
        try:
            yield from rows_of(store, part, context)
        except (FileNotFoundError, ReplacedError) as error:
            replaced = isinstance(error, ReplacedError)
            again = options.replaced == "again" and not (context.batch or options.keysGrow)
            if not (replaced and again and part.info.tag):  # then its new content is read
                context.lost(
                    f"`{part.info.key}` of {options.path} was "
                    f"{'replaced' if replaced else 'deleted'} before its rows were read"
                )


source = (
    SourceBuilder.replayable(FORMAT, schema_of, look=look, read=read)
    .retry(seconds=0)  # the store repeats single requests, also in the middle of an object
    .connect(lambda options: {})  # the searches for new objects, by the names of their tapes
    .bound(bound)
    .limit("maxFilesPerTrigger", "objects in a batch")
    .distributed(
        None,
        meaning="the least number of tasks, while each has 1 MB or ten objects to read; by default "
        "as many as Spark runs at once",
    )
    .options(*READ)
    .build()
)
