"""Objects as a stream and as a batch: the functions of the source.

Builder's positions of a stream are places on a tape (`found`). A batch is planned in the driver:
its splits are the parts of objects that each task reads.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from tutorial_pkg.builder import OptionValues, Position, SourceBuilder, SplitContext
from tutorial_pkg.connectors.objects.found import (
    BLOCK,
    Part,
    Search,
    Tape,
    length,
    matches,
    parts,
)
from tutorial_pkg.connectors.objects.manifests import Content
from tutorial_pkg.connectors.objects.options import FORMAT, READ
from tutorial_pkg.connectors.objects.reading import rows_of, schema_of
from tutorial_pkg.connectors.store import Found, ReplacedError, Store, log
from tutorial_pkg.core.worker import cores

LEAST = 1000  # of the tape for a task: ten small objects, or a megabyte


class Look:
    """The connection: in the driver what was found so far, made when it is first asked for."""

    def __init__(self, options: OptionValues) -> None:
        self._options = options
        self._search: Search | None = None
        self._end, self._next_look = 0, 0.0
        self.name = uuid.uuid4().hex  # of the notes of a query that begins

    def end(self, name: str, start: int) -> int:
        """Of the tape with this name; looks for new objects every `lookSeconds`."""
        if self._search is None:
            self._search = Search(self._options, name, start)
        if time.monotonic() >= self._next_look:
            self._end = self._search.look()
            self._next_look = time.monotonic() + self._options.lookSeconds
        return self._end


# ---- The functions of the source -----------------------------------------------------------------


def splits(context: SplitContext) -> dict[str, Position]:
    """A stream has one, named after its notes; a batch has one for each task."""
    if context.batch:
        return {json.dumps(share): 0 for share in _shares(context.options)}
    return dict.fromkeys(context.offset or [context.connection.name], 0)


def latest(context: SplitContext, split: str, start: int) -> int:
    if context.batch:
        return 1
    end: int = context.connection.end(split, start)
    return end


def bound(context: SplitContext, split: str, start: int, end: int, objects: int | None) -> int:
    """Where a batch of this many objects and bytes ends."""
    options = context.options
    if context.batch:
        return end
    if options.maxBytesPerTrigger:
        end = min(end, start + max(1, options.maxBytesPerTrigger // BLOCK))
    if objects is None:
        return end
    behind = (place for place, _ in Tape(options, split).places(start, end) if place > start)
    return next((place for count, place in enumerate(behind, 1) if count == objects), end)


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[Any]:
    options = context.options
    if context.batch:
        work: Iterable[Part] = (Part(Found(*found), *ends) for found, *ends in json.loads(split))
    else:
        work = parts(Tape(options, split).places(start, end), start, end)
    store = Store(options, options.path)
    for part in work:
        try:
            yield from rows_of(store, part, context.schema, options)
        except (FileNotFoundError, ReplacedError) as error:
            _lose(options, part.found, error)


def _lose(options: OptionValues, found: Found, error: Exception) -> None:
    """The object is gone. If another came in its place, and is to be read, nothing is lost."""
    replaced = isinstance(error, ReplacedError)
    text = (
        f"`{found.key}` of {options.path} was {'replaced' if replaced else 'deleted'} after it was "
        "found, and before its rows were read"
    )
    if options.failOnDataLoss and not (replaced and options.replaced == "again"):
        raise RuntimeError(f"{text}; `failOnDataLoss` false goes on without them") from None
    log.warning("format `%s`: %s", FORMAT, text)


def _shares(options: OptionValues) -> Iterator[list[Part]]:
    """All that is there now, cut into about equal parts."""
    found = sorted(
        each for each in Content(Store(options, options.path)).news() if matches(options, each)
    )
    ends = list(accumulate(map(length, found), initial=0))
    size = max(LEAST, -(-ends[-1] // (options.parallelism or cores())))
    for begin in range(0, ends[-1], size):
        share = list(parts(zip(ends, found, strict=False), begin, begin + size))
        if share:
            yield share


source = (
    SourceBuilder.replayable(FORMAT, schema_of, splits, latest, read)
    .retry(seconds=0)  # it waits by itself
    .connect(Look)
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
