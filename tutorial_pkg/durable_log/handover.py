"""A log between two processes: a *receiver* writes it, and a query only reads.

Beside the logs in the receiver's folder are two small files, each written by one side:

- `received.json`, by the receiver: where each log begins, and up to where it is on disk. While this
  file exists, a query writes nothing to the logs, whether the receiver runs or not.
- `query/reported.json`, by the query: what it has processed, and what it has committed. `query/`
  also has the query's lock: a log has one query, since committed segments are deleted.

Neither side waits for the other. Folders may be on storage that several hosts share.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tutorial_pkg.core.disk import replace_file
from tutorial_pkg.core.waiting import Tries, wait_for
from tutorial_pkg.durable_log.group import LogGroup, LogOffset, Logs
from tutorial_pkg.durable_log.lock import PATIENCE_SECONDS, WriterLock

RECEIVED, REPORTED = "received.json", "query/reported.json"
POLL_SECONDS = 0.02
DISCOVER_SECONDS = 1.0
_SIGNS = frozenset("*?[{")  # of a glob
_CHOICE = re.compile(r"(.*?)\{([^{}]*)\}(.*)", re.DOTALL)  # the first that contains no other


class Handover:
    """The receiver's side: what it publishes of its logs, and reads of the query's progress."""

    def __init__(self, logs: LogGroup) -> None:
        self._logs = logs
        self._reported_file = logs.directory / REPORTED
        self._reported_file.parent.mkdir(parents=True, exist_ok=True)
        self._reported_file.parent.chmod(0o770)  # the query may be another user of the same group
        self._published: dict[str, Any] = {}
        self._reported: dict[str, Any] = {}

    def publish(self) -> None:
        """Put the logs on disk, and publish up to where they are. Raises `OSError`."""
        end, first = self._logs.sync().positions, self._logs.first().positions
        state = {"log": self._logs.id, "first": first, "end": end}
        if state != self._published:
            _replace(self._logs.directory / RECEIVED, state)
            self._published = state

    def read_query(self) -> None:
        """Learn up to where the query has processed each log, and delete what it has committed.

        Raises `ValueError` if that is further than the logs go: new lines would fill the gap
        unread.
        """
        reported = _read(self._reported_file)
        if reported == self._reported or reported.get("log") != self._logs.id:
            return
        self._reported = reported
        self._logs.delete_below(LogOffset(reported["committed"]))
        first, processed = self._logs.first().positions, reported["processed"]
        offset = LogOffset({key: max(at, processed.get(key, 0)) for key, at in first.items()})
        self._logs.processed(self._logs.checked(offset))


def is_received(path: str) -> bool:
    """Return whether receivers write the logs at `path`, a folder or a glob."""
    return _is_glob(path) or (Path(path) / RECEIVED).exists()


class ReceivedLogs(Logs):
    """The query's side: the logs of one receiver, or with a glob those of many.

    New receivers are found while the query runs. Raises `LogLockedError` when another query reads
    one of the logs.
    """

    def __init__(self, path: str, noun: str) -> None:
        self.noun = noun
        self.directory, self._pattern = Path(path).resolve(), ""
        if _is_glob(path):
            parts = Path(path).parts
            fixed = next(at for at, part in enumerate(parts) if not _SIGNS.isdisjoint(part))
            self.directory, self._pattern = Path(*parts[:fixed]), "/".join(parts[fixed:])
        # By what offsets put before the numbers of a folder's logs: "", or with a glob "name/".
        self._locks: dict[str, WriterLock] = {}
        self._reported: dict[str, dict[str, Any]] = {}
        self._discover_at = 0.0
        self._discover()

    def first(self) -> LogOffset:
        return self._offset("first")

    def end(self) -> LogOffset:
        self._discover()
        return self._offset("end")

    def wait_for_more(self, offset: LogOffset, seconds: float) -> None:
        wait_for(lambda: self.end().positions != offset.positions, seconds, POLL_SECONDS)

    def checked(self, offset: LogOffset) -> LogOffset:
        """Check as usual, but give a receiver time to publish again after a power failure."""
        check = partial(super().checked, offset)
        return Tries(lambda error: isinstance(error, ValueError), PATIENCE_SECONDS).patiently(check)

    def processed(self, offset: LogOffset) -> None:
        self._report("processed", offset)

    def delete_below(self, offset: LogOffset) -> None:
        """Report the commit; the receivers delete."""
        self._report("committed", offset)

    def close(self) -> None:
        for lock in self._locks.values():
            lock.release()

    def _received(self, prefix: str) -> dict[str, Any]:
        file = self.directory / prefix / RECEIVED
        return _read(file) or {"log": "", "first": {}, "end": {}}

    def _offset(self, kind: str) -> LogOffset:
        positions, ids = dict[str, int](), dict[str, str]()
        for prefix in self._locks:
            received = self._received(prefix)
            positions |= {prefix + number: at for number, at in received[kind].items()}
            ids[prefix.rstrip("/")] = received["log"]
        return LogOffset(positions, ids)

    def _report(self, kind: str, offset: LogOffset) -> None:
        """Write each folder's positions for its receiver, if they have changed."""
        for prefix, reported in self._reported.items():
            received, positions = self._received(prefix), offset.positions
            numbers = [number for number in received["end"] if prefix + number in positions]
            mine = {number: positions[prefix + number] for number in numbers}
            changed = {**reported, "log": received["log"], kind: mine}
            if changed != reported:
                _replace(self.directory / prefix / REPORTED, changed)
                self._reported[prefix] = changed

    def _discover(self) -> None:
        """Find the folders of new receivers, at most once a second."""
        now = time.monotonic()
        if now < self._discover_at:
            return
        self._discover_at = now + DISCOVER_SECONDS
        folders = {self.directory}
        if self._pattern:
            folders = {
                path for each in _choices(self._pattern) for path in self.directory.glob(each)
            }
        for folder in sorted(folders):
            prefix = f"{folder.relative_to(self.directory)}/" if self._pattern else ""
            # A glob that includes the file would skip a folder that this user may not read.
            if prefix not in self._locks and (folder / RECEIVED).exists():
                self._locks[prefix] = WriterLock(folder / "query", PATIENCE_SECONDS)
                self._reported[prefix] = {"processed": {}, "committed": {}}


def _is_glob(path: str) -> bool:
    is_pattern = not _SIGNS.isdisjoint(path.replace("{", "")) or _CHOICE.fullmatch(path)
    return bool(is_pattern) and not Path(path).is_dir()


def _choices(pattern: str) -> list[str]:
    """Expand `a{b,c}` to `ab` and `ac`, as Spark does."""
    choice = _CHOICE.fullmatch(pattern)
    if not choice:
        return [pattern]
    before, parts, after = choice.groups()
    return [text for part in parts.split(",") for text in _choices(before + part + after)]


def _replace(file: Path, content: Mapping[str, Any]) -> None:
    """Replace a file. After a power failure it may be an older one, or empty."""
    replace_file(file, json.dumps(content), survives_power_failure=False)


def _read(file: Path) -> dict[str, Any]:
    """Return a file's content; nothing if it is missing, or was torn by a power failure."""
    try:
        content: dict[str, Any] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return content
