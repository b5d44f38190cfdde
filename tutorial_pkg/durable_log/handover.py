"""A log between two processes: a *receiver* writes it, and a query only reads.

Beside the logs in the receiver's folder are two small files, each written by one side:

- `received.json`, by the receiver: up to where each log is on disk, and where it begins. As long
  as it is there, a query writes nothing to the logs, whether the receiver runs or not.
- `query/reported.json`, by the query: how far it has come, and what it no longer needs. `query/`
  also has the query's lock: a log has one query, since what that has processed is deleted.

Neither side waits for the other: the receiver goes on until the backlog is full, and the query
reads what is there. Folders may be on storage that several hosts share.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tutorial_pkg.core.disk import make_folder, replace_file
from tutorial_pkg.durable_log.group import LogGroup, LogOffset, Logs, Number
from tutorial_pkg.durable_log.lock import PATIENCE_SECONDS, WriterLock

RECEIVED, REPORTED = "received.json", "query/reported.json"
POLL_SECONDS = 0.02
DISCOVER_SECONDS = 1.0
_SIGNS = "*?["
_CHOICE = re.compile(r"(.*?)\{([^{}]*)\}(.*)", re.DOTALL)  # the first that holds no other


# ---- The receiver's side -------------------------------------------------------------------------


class Published:
    """What a receiver says of its logs, and learns of the query. Raises `OSError`."""

    def __init__(self, logs: LogGroup) -> None:
        self._logs = logs
        place = (logs.directory / REPORTED).parent
        make_folder(place)
        place.chmod(0o770)  # the query may be another user's, of the same group
        self._told: dict[str, Any] = {}
        self._deleted: Mapping[str, int] = {}

    def write(self) -> None:
        """Put on disk what came, and say up to where that is. Raises `OSError`."""
        end = self._logs.sync()
        first = self._logs.first().positions
        now = {"log": self._logs.id, "first": _keyed(first), "end": _keyed(end.positions)}
        if now != self._told:
            _replace(self._logs.directory / RECEIVED, now)
            self._told = now

    def read_query(self) -> Mapping[int, int]:
        """By number, how far the query has come; delete what it no longer needs.

        Raises `ValueError` if that is further than the logs go.
        """
        reported = _read(self._logs.directory / REPORTED)
        if reported.get("log") != self._logs.id:
            return {}
        if reported["committed"] != self._deleted:
            self._deleted = reported["committed"]
            self._logs.delete_below(LogOffset({int(key): at for key, at in self._deleted.items()}))
        known = self._logs.writers
        processed = {int(key): at for key, at in reported["processed"].items() if int(key) in known}
        self._logs.check_end(processed)
        return processed


# ---- The query's side ----------------------------------------------------------------------------


def is_received(path: str) -> bool:
    """Whether receivers write the logs at `path`, a folder or a glob, and a query only reads."""
    return _is_glob(path) or (Path(path) / RECEIVED).exists()


@dataclass
class _Folder:
    """One receiver's folder; `prefix` goes before the numbers of its logs."""

    path: Path
    prefix: str
    lock: WriterLock
    reported: dict[str, dict[str, int]] = field(default_factory=dict)

    def read(self) -> dict[str, Any]:
        """What the receiver has said last."""
        found = _read(self.path / RECEIVED)
        return found or {"log": "", "first": {}, "end": {}}

    def report(self, kind: str, positions: Mapping[Number, int]) -> None:
        """Say it to the receiver, if it is something new."""
        places = ((*str(number).rpartition("/"), at) for number, at in positions.items())
        mine = {key: at for place, slash, key, at in places if place + slash == self.prefix}
        before = {"processed": {}, "committed": {}, **self.reported}
        if before[kind] != mine:
            self.reported = {**before, kind: mine}
            _replace(self.path / REPORTED, {"log": self.read()["log"], **self.reported})


class ReceivedLogs(Logs):
    """The logs of a receiver; with a glob for `path` those of many, which may become more.

    Raises `LogLockedError` when another query reads one of them.
    """

    def __init__(self, path: str, noun: str) -> None:
        self._glob = path if _is_glob(path) else None
        self._noun = noun
        self.directory = _fixed_part(path) if self._glob else Path(path).resolve()
        self._folders: dict[str, _Folder] = {}
        self._discover_at = 0.0
        self._discover()

    @property
    def id(self) -> str | Mapping[str, str]:  # type: ignore[override]
        ids = {folder.prefix.rstrip("/"): folder.read()["log"] for folder in self._all()}
        return ids if self._glob else ids.get("", "")

    def first(self) -> LogOffset:
        return self._offset("first")

    def end(self) -> LogOffset:
        self._discover()
        return self._offset("end")

    def sync(self) -> LogOffset:
        """What the receivers have said is on disk."""
        return self.end()

    def wait_for_more(self, offset: LogOffset, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self.end().positions == offset.positions and time.monotonic() < until:
            time.sleep(POLL_SECONDS)

    def check(self, offset: LogOffset) -> None:
        """After a power failure a receiver has to start before it says again how far it was."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                super().check(offset)
            except ValueError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)
            else:
                return

    def processed(self, offset: LogOffset) -> None:
        for folder in self._all():
            folder.report("processed", offset.positions)

    def delete_below(self, offset: LogOffset) -> None:
        """Have the receivers do it."""
        for folder in self._all():
            folder.report("committed", offset.positions)

    def close(self) -> None:
        for folder in self._all():
            folder.lock.release()

    def _all(self) -> list[_Folder]:
        return list(self._folders.values())

    def _offset(self, kind: str) -> LogOffset:
        positions: dict[Number, int] = {}
        for folder in self._all():
            for key, at in folder.read()[kind].items():
                positions[f"{folder.prefix}{key}" if self._glob else int(key)] = at
        return LogOffset(positions, self.id)

    def _discover(self) -> None:
        """Folders of receivers that are new, now and then."""
        now = time.monotonic()
        if now < self._discover_at:
            return
        self._discover_at = now + DISCOVER_SECONDS
        for path in self._matching():
            prefix = f"{path.relative_to(self.directory)}/" if self._glob else ""
            if prefix not in self._folders and (path / RECEIVED).exists():
                self._folders[prefix] = _Folder(
                    path, prefix, WriterLock(path / "query", PATIENCE_SECONDS)
                )

    def _matching(self) -> list[Path]:
        if self._glob is None:
            return [self.directory]
        pattern = str(Path(self._glob).relative_to(self.directory))
        found = {path for each in _chosen(pattern) for path in self.directory.glob(each)}
        return sorted(path for path in found if path.is_dir())


def _is_glob(path: str) -> bool:
    signs = any(sign in path for sign in _SIGNS) or _CHOICE.fullmatch(path)
    return bool(signs) and not Path(path).is_dir()


def _chosen(pattern: str) -> list[str]:
    """`a{b,c}` is `ab` and `ac`, as in Spark."""
    choice = _CHOICE.fullmatch(pattern)
    if not choice:
        return [pattern]
    before, parts, after = choice.groups()
    return [each for part in parts.split(",") for each in _chosen(before + part + after)]


def _fixed_part(path: str) -> Path:
    """The folders before the first that a glob leaves open."""
    parts = Path(path).parts
    fixed = next(place for place, part in enumerate(parts) if set(part) & {*_SIGNS, "{"})
    return Path(*parts[:fixed])


# ---- Files ---------------------------------------------------------------------------------------


def _keyed(positions: Mapping[Number, int]) -> dict[str, int]:
    return {str(number): at for number, at in positions.items()}


def _replace(file: Path, content: Mapping[str, Any]) -> None:
    """After a power failure it may be an older one, or empty."""
    replace_file(file, json.dumps(content), survives_power_failure=False)


def _read(file: Path) -> dict[str, Any]:
    """Its content; nothing if it is not there, or was torn by a power failure."""
    try:
        content: dict[str, Any] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return content
