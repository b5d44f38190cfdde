"""Which objects of a folder count: those that the sink's manifests name, batch by batch.

_manifests/objects              this folder has manifests: nothing else counts
_manifests/QUERY/each/BATCH     what one batch has added; joined now and then (`object_log`)
_manifests/QUERY/open/BATCH-ID  what a task is about to write, so that it can be removed
"""

from __future__ import annotations

from collections.abc import Iterator

from tutorial_pkg.connectors.objects.object_log import ObjectLog
from tutorial_pkg.connectors.store import ObjectInfo, Store, visible

FOLDER = "_manifests"
MARK = f"{FOLDER}/objects"


def log_of(store: Store, query: str) -> ObjectLog:
    """Return the manifests of one query. Their numbers are those of its batches."""
    return ObjectLog(store, f"{FOLDER}/{query}")


class Content:
    """The objects of a folder that count. A manifest is read only once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._marked = False
        self._read: dict[str, int] = {}  # of each query, its last batch

    def news(self, after: str | None = None) -> Iterator[ObjectInfo]:
        """Yield objects that may be new: a listing, or what new manifests name."""
        if not self._marked:
            listed = self._store.listing(after=after)
            if not listed and after is None:
                self._store.check_folder()
            # Checked after the listing: a sink may have begun since, and uploaded what doesn't
            # count yet.
            self._marked = self._store.exists(MARK)
            if not self._marked:
                yield from visible(listed)
                return
        for query in sorted(self._store.list_folders(FOLDER)):
            yield from self._published(query)

    def _published(self, query: str) -> Iterator[ObjectInfo]:
        manifests, last = log_of(self._store, query), self._read.get(query)
        for record in manifests.records() if last is None else manifests.after(last):
            self._read[query] = record["number"]
            for fields in record["objects"]:
                yield ObjectInfo(*fields)
