"""Which objects of a folder count: what the sink has published, batch by batch.

_manifests/objects              there are manifests here: nothing else counts
_manifests/QUERY/each/BATCH     what one batch has added; joined now and then (`object_log`)
_manifests/QUERY/open/BATCH-ID  what a task is about to write, so that it can be removed
"""

from __future__ import annotations

from collections.abc import Iterator

from tutorial_pkg.connectors.objects.object_log import ObjectLog
from tutorial_pkg.connectors.store import Found, Store, visible

FOLDER = "_manifests"
MARK = f"{FOLDER}/objects"


def log_of(store: Store, query: str) -> ObjectLog:
    """The manifests of one query; their numbers are those of its batches."""
    return ObjectLog(store, f"{FOLDER}/{query}")


class Content:
    """What a folder has; what was read once of its manifests is not read again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._marked = False
        self._seen: dict[str, int] = {}  # of each query, its last batch

    def news(self, after: str | None = None) -> Iterator[Found]:
        """Objects that may be new: a listing, or what manifests have named since the last time."""
        if not self._marked:
            listed = self._store.listed(after=after)
            if not listed and after is None:
                self._store.check_folder()
            # Looked for after the listing: what a sink has uploaded by then may not count yet.
            self._marked = self._store.exists(MARK)
            if not self._marked:
                yield from visible(listed)
                return
        for query in sorted(self._store.folders(FOLDER)):
            yield from self._published(query)

    def _published(self, query: str) -> Iterator[Found]:
        manifests, seen = log_of(self._store, query), self._seen.get(query)
        for record in manifests.records() if seen is None else manifests.after(seen):
            self._seen[query] = record["number"]
            for found in record["objects"]:
                yield Found(*found)
