"""Which files exist and which of them changed, with as few questions to the system as possible.

A directory of a year's logs has very many files, and few of them change. `Watch` asks for each of
them once. From then on a look takes in what the kernel hints at; a directory's names, if its own
time of change moved and no hint says why; the files that changed a short while ago; and some of
the others, in turns. Times and hints decide only *when* a file is looked at, never what was read
of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from pathlib import Path

from tutorial_pkg.connectors.file_lines.file_search import (
    FoundFile,
    Name,
    check_place,
    directories_of,
    found_file,
    name_matcher,
    names_in,
    packed_id,
    unpacked,
)
from tutorial_pkg.connectors.file_lines.hints import Hints

AT_REST_EVERY = 120.0  # seconds until all files at rest, and all names, are looked at again
_AT_REST_LEAST = 64  # files at each look, however short ago the last one was
_RESTLESS_MOST = 1024  # files at each look, where hints tell of those that changed
_YOUNG = 0.1  # seconds: a time of change that is younger may hide another change

# In the order in which files were asked for; with the path, where it is new, matches, and is the
# only one.
Ids = dict[str, str | None]
FirstLook = Callable[[str], FoundFile | None]


def _first_look(path: str) -> FoundFile | None:
    return found_file(path, matches=True)


@dataclass(frozen=True)
class Listing:
    """A directory's time of change, and when its names were read."""

    changed: int = -1
    at: float = 0.0


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
        self._hints = Hints(AT_REST_EVERY)
        self._listings: dict[str, Listing] = {}
        self._files: dict[str, dict[str, bytes]] = {}  # of each directory, packed, by their paths
        self._paths: dict[str, str] = {}  # of each id: mostly one, else NULs are between them
        self._restless: dict[str, None] = {}  # the next one to look at first
        self._turn: Iterator[str] = iter(())  # of all files
        self._looked_at = clock()
        self._touched: Ids = {}
        self._beside: list[FoundFile] | None = None

    def look(self, first_look: FirstLook = _first_look, anew: bool = False) -> Ids:
        """The ids of files that came, changed, were renamed, or went since the last look.

        What is at a new path that matches, `first_look` says: if it opens the file anyway, that
        spares a question. With `anew` all names are read, whatever the times say.
        """
        check_place(self._place)
        self._beside = None
        self._touched, now = {}, self._clock()
        self._matches = name_matcher(self._place)
        told = self._follow_hints(now)
        places = {str(place): place for place in directories_of(self._place)}
        for gone in self._listings.keys() - places.keys():
            self._hints.drop(gone)
            self._take(gone, [], now, first_look)
            del self._listings[gone], self._files[gone]
        for name, place in places.items():
            self._list(name, place, now, anew, name in told, first_look)
        for path in self._due(now):
            self._ask(path, now)
        return self._touched

    def find(self, id_: str) -> FoundFile | None:
        """The file with an id, under the name that counts."""
        paths = self._paths_of(id_)
        if len(paths) == 1:
            return self.at(paths[0])
        return max(filter(None, map(self.at, paths)), key=_rank, default=None)

    def at(self, path: str) -> FoundFile | None:
        data = self._files.get(_place_of(path), {}).get(path)
        return unpacked(path, data) if data else None

    def beside(self) -> list[FoundFile]:
        """The files that do not match, in the order of their names."""
        if self._beside is None:
            everywhere = (
                unpacked(*item) for files in self._files.values() for item in files.items()
            )
            beside = (file for file in everywhere if not file.matches)
            self._beside = sorted(beside, key=lambda file: file.path)
        return self._beside

    def restless(self) -> set[str]:
        """The ids of the files that changed a short while ago."""
        now = self._clock()
        files = filter(None, map(self.at, self._restless))
        return {file.id for file in files if self._is_restless(file, now)}

    def also_watch(self, path: str) -> None:
        """Look at a file from now on, though it does not match."""
        self._restless[path] = None

    def _follow_hints(self, now: float) -> set[str]:
        """Look where the kernel saw a change. Returns the directories whose names it told of."""
        told = set()
        for path, is_name in self._hints.read(now):
            old = self.at(path)
            if is_name or (old and self._counts(old)):
                self._ask(path, now)
                self._touch(old)  # changed they have, though all times be the same
                self._touch(self.at(path))
            if is_name:
                told.add(_place_of(path))
        return told

    def _list(
        self, name: str, place: Path, now: float, anew: bool, told: bool, first_look: FirstLook
    ) -> None:
        try:
            status = place.stat()
        except OSError:
            self._hints.drop(name)
            changed, begun = -1, False
        else:
            begun = self._hints.cover(name, (status.st_dev, status.st_ino), now)
            changed = status.st_mtime_ns  # before its names: a change in between is seen
        old = self._listings.get(name, Listing())
        if anew or begun or not self._is_fresh(name, old, changed, now, told):
            self._listings[name] = Listing(changed, now)
            self._take(name, names_in(place), now, first_look)
        else:
            self._listings[name] = replace(old, changed=changed)

    def _is_fresh(self, name: str, old: Listing, changed: int, now: float, told: bool) -> bool:
        """Whether the names are known, as far as can be told without reading them."""
        same = told or old.changed == changed
        settled = self._hints.covers(name) or not _is_young(old.changed, old.at)
        return same and settled and abs(now - old.at) < AT_REST_EVERY

    def _take(self, place: str, names: list[Name], now: float, first_look: FirstLook) -> None:
        """Look at what is new in a directory with these names, and their inodes, or gone."""
        files = self._files.setdefault(place, {})
        gone = files.copy()
        folder = place.rstrip("/")
        for name, inode, is_file in sorted(names, key=itemgetter(1)):  # as on disk, older first
            path = f"{folder}/{name}"
            known = gone.pop(path, None)
            if known is None and is_file and self._matches(name):
                self._note_in(files, path, first_look(path), now)
            elif known is None or not packed_id(known).endswith(f":{inode}"):
                self._note_in(files, path, found_file(path, self._matches(name)), now)
        for path in gone:
            self._note(path, None, now)

    def _due(self, now: float) -> Iterator[str]:
        """The restless ones, and enough of all that each has its turn in time."""
        most = _RESTLESS_MOST if all(map(self._hints.covers, self._listings)) else None
        yield from list(islice(self._restless, most))
        passed = min(1.0, (now - self._looked_at) / AT_REST_EVERY)
        self._looked_at = now
        count = max(_AT_REST_LEAST, int(sum(map(len, self._files.values())) * passed))
        for file in filter(None, map(self.at, self._next_in_turn(count))):
            if self._counts(file):
                yield file.path

    def _next_in_turn(self, count: int) -> list[str]:
        paths = list(islice(self._turn, count))
        if not paths:  # those asked the longest ago come first again
            self._turn = iter([path for files in self._files.values() for path in files])
            paths = list(islice(self._turn, count))
        return paths

    def _counts(self, file: FoundFile) -> bool:
        return file.matches or self._is_tracked(file.id)

    def _ask(self, path: str, now: float) -> None:
        self._note(path, found_file(path, self._matches(path.rpartition("/")[2])), now)

    def _note(self, path: str, new: FoundFile | None, now: float) -> None:
        self._note_in(self._files.setdefault(_place_of(path), {}), path, new, now)

    def _note_in(
        self, files: dict[str, bytes], path: str, new: FoundFile | None, now: float
    ) -> None:
        data = new.packed() if new else None
        old = files.get(path)
        if data != old:
            if old:
                self._drop(files, path)
            if new and data:
                files[path] = data
                others = self._paths.get(new.id)
                self._paths[new.id] = f"{others}\0{path}" if others else path
                self._touched[new.id] = path if new.matches and not others else None
        elif new and _is_young(new.modified, now):
            self._touched[new.id] = None
        self._restless.pop(path, None)
        if new and self._is_restless(new, now) and self._counts(new):
            self._restless[path] = None

    def _drop(self, files: dict[str, bytes], path: str) -> None:
        id_ = packed_id(files.pop(path))
        self._touched[id_] = None
        others = [other for other in self._paths_of(id_) if other != path]
        if others:
            self._paths[id_] = "\0".join(others)
        else:
            del self._paths[id_]

    def _paths_of(self, id_: str) -> list[str]:
        paths = self._paths.get(id_)
        return paths.split("\0") if paths else []

    def _touch(self, file: FoundFile | None) -> None:
        if file:
            self._touched[file.id] = None

    def _is_restless(self, file: FoundFile, now: float) -> bool:
        return abs(now - file.modified / 1e9) <= self._rest_after


def _rank(file: FoundFile) -> tuple[bool, str]:
    return file.rank


def _is_young(changed: int, now: float) -> bool:
    return abs(now - changed / 1e9) < _YOUNG


def _place_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"
