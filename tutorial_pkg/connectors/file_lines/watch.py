"""Which files there are and which of them changed, asked as rarely as that can be known.

A directory of a year's logs has very many files, and few of them change. `Watch` asks for each of
them once. From then on a look takes in a directory's names, if its own time of change moved;
the files that changed a short while ago; and some of the others, in turns. Times decide only
*when* a file is looked at, never what was read of it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tutorial_pkg.connectors.file_lines.file_search import (
    FoundFile,
    check_place,
    directories_of,
    found_file,
    name_matcher,
    names_in,
)

AT_REST_EVERY = 120.0  # seconds until all files at rest, and all names, are looked at again
_AT_REST_LEAST = 64  # files at each look, however short ago the last one was
_YOUNG = 0.1  # seconds: a time of change that is younger may hide another change


@dataclass(frozen=True)
class Listing:
    """The names in a directory, with their inodes, the directory's time of change before, now."""

    names: dict[str, int] = field(default_factory=dict)
    changed: int = -1
    at: float = 0.0

    def is_fresh(self, changed: int, now: float) -> bool:
        """Whether the names are still the same, as far as can be told without reading them."""
        settled = not _is_young(self.changed, self.at)
        return self.changed == changed and settled and abs(now - self.at) < AT_REST_EVERY


class Watch:
    """The files that `path` means, those beside them, and what became of them.

    Files that match, and those for which `is_tracked` says yes to their id, are looked at again
    and again. One that has not changed for `rest_after` seconds is at rest.
    """

    def __init__(
        self,
        path: str,
        is_tracked: Callable[[str], bool],
        rest_after: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._place = Path(path)
        self._is_tracked = is_tracked
        self._rest_after = rest_after
        self._clock = clock
        self._listings: dict[Path, Listing] = {}
        self._files: dict[str, FoundFile] = {}
        self._names: dict[str, tuple[str, ...]] = {}  # of each id
        self._restless: set[str] = set()
        self._at_rest: OrderedDict[str, None] = OrderedDict()  # the next one to look at first
        self._looked_at = clock()
        self._touched: set[str] = set()
        self._beside: list[FoundFile] | None = None

    def look(self, anew: bool = False) -> set[str]:
        """The ids of files that came, changed, were renamed, or went since the last look.

        With `anew` all names are read, whatever the times say.
        """
        check_place(self._place)
        self._beside = None
        self._touched, now = set(), self._clock()
        self._matches = name_matcher(self._place)
        places = directories_of(self._place)
        for gone in self._listings.keys() - set(places):
            self._take(gone, Listing(), now)
        for place in places:
            self._list(place, now, anew)
        for path in self._due(now):
            self._ask(path, now)
        return self._touched

    def find(self, id_: str) -> FoundFile | None:
        """The file with an id, under the name that counts."""
        names = self._names.get(id_, ())
        return max((self._files[name] for name in names), key=lambda f: f.rank, default=None)

    def at(self, path: str) -> FoundFile | None:
        return self._files.get(path)

    def beside(self) -> list[FoundFile]:
        """The files that do not match, in the order of their names."""
        if self._beside is None:
            files = (file for file in self._files.values() if not file.matches)
            self._beside = sorted(files, key=lambda file: file.path)
        return self._beside

    def is_at_rest(self, id_: str) -> bool:
        """Whether a file has not changed for a while, or is no more."""
        found = self.find(id_)
        return found is None or found.path in self._at_rest

    def also_watch(self, path: str) -> None:
        """Look at a file from now on, though it does not match."""
        self._restless.add(path)

    def _list(self, place: Path, now: float, anew: bool) -> None:
        try:
            changed = place.stat().st_mtime_ns  # before its names: a change in between is seen
        except OSError:
            changed = -1
        if anew or not self._listings.get(place, Listing()).is_fresh(changed, now):
            self._take(place, Listing(names_in(place), changed, now), now)

    def _take(self, place: Path, new: Listing, now: float) -> None:
        old = self._listings.get(place, Listing())
        self._listings[place] = new
        inside = str(place).rstrip("/")
        for name, inode in new.names.items():
            if old.names.get(name) != inode:
                self._ask(f"{inside}/{name}", now)
        for name in old.names:
            if name not in new.names:
                self._note(f"{inside}/{name}", None, now)

    def _due(self, now: float) -> Iterator[str]:
        """The restless ones, and so many of those at rest that all had their turn in time."""
        yield from list(self._restless)
        passed = min(1.0, (now - self._looked_at) / AT_REST_EVERY)
        self._looked_at = now
        count = max(_AT_REST_LEAST, int(len(self._at_rest) * passed))
        for _ in range(min(count, len(self._at_rest))):
            yield self._at_rest.popitem(last=False)[0]

    def _ask(self, path: str, now: float) -> None:
        self._note(path, found_file(path, self._matches(path.rpartition("/")[2])), now)

    def _note(self, path: str, new: FoundFile | None, now: float) -> None:
        old = self._files.pop(path, None)
        if old and (new is None or new.id != old.id):
            self._drop_name(old)
        if new:
            self._files[path] = new
            if old is None or new.id != old.id:
                self._names[new.id] = (*self._names.get(new.id, ()), path)
        if new != old or (new and _is_young(new.changed[0], now)):
            self._touched.update(file.id for file in (old, new) if file)
        self._place_in_turn(path, new, now)

    def _drop_name(self, file: FoundFile) -> None:
        left = tuple(name for name in self._names[file.id] if name != file.path)
        if left:
            self._names[file.id] = left
        else:
            del self._names[file.id]

    def _place_in_turn(self, path: str, file: FoundFile | None, now: float) -> None:
        self._restless.discard(path)
        self._at_rest.pop(path, None)
        if file and (file.matches or self._is_tracked(file.id)):
            if abs(now - file.changed[0] / 1e9) > self._rest_after:
                self._at_rest[path] = None
            else:
                self._restless.add(path)


def _is_young(changed: int, now: float) -> bool:
    return abs(now - changed / 1e9) < _YOUNG
