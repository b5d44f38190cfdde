"""How the logs in a directory are doing, by number, in a small file.

It may quote an error of a user's function, so it is as private as the logs themselves.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tutorial_pkg.core.disk import replace_file
from tutorial_pkg.core.options import local_directory
from tutorial_pkg.durable_log.group import LogGroup
from tutorial_pkg.durable_log.lock import writer_process

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FILE = "status.json"
PUBLISH_SECONDS = 0.25

Status = TypeVar("Status", bound="DataclassInstance")

_log = logging.getLogger(__name__)


def read_status(
    path: str | Path, key: str, kind: type[Status]
) -> tuple[Path, int | None, dict[int, Status], list[str]]:
    """Return the log's folder, its writing process, the status of each number, and the warnings.

    The process is None if it has ended. There are no statuses before the first query, and if a
    power failure has torn the file.
    """
    directory = Path(path)
    with suppress(ValueError):  # on another file system there is no log
        directory = Path(local_directory(str(path)))
    try:
        content = json.loads((directory / FILE).read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return directory, None, {}, []
    process = content["process"] if content["process"] == writer_process(directory) else None
    statuses = {int(number): kind(**fields) for number, fields in content[key].items()}
    return directory, process, statuses, content["warnings"]


class StatusPublisher(threading.Thread):
    """Publishes what `current` returns under the name `key` whenever it has changed, until `stop`.

    A status that cannot be written, on a full disk for example, is written later, with a warning.
    """

    def __init__(
        self, logs: LogGroup, key: str, current: Callable[[], Mapping[int, DataclassInstance]]
    ) -> None:
        super().__init__(name="status", daemon=True)
        self._file, self._key, self._current = logs.directory / FILE, key, current
        self._warnings = [log.repair for log in logs.writers.values() if log.repair]
        self._published: Mapping[int, DataclassInstance] = {}
        self._stopping = threading.Event()

    def run(self) -> None:
        self._publish_changes()
        while not self._stopping.wait(PUBLISH_SECONDS):
            self._publish_changes()
        self._publish_changes()

    def stop(self) -> None:
        """Publish a last time, and end."""
        self._stopping.set()
        self.join()

    def warn(self, text: str) -> None:
        """Add a warning to the log and to the status, once."""
        if text not in self._warnings:
            self._warnings.append(text)
            _log.warning("%s: %s", self._file.parent, text)

    def _publish_changes(self) -> None:
        current = self._current()
        if current == self._published:
            return
        statuses = {number: asdict(status) for number, status in current.items()}
        content = {"process": os.getpid(), self._key: statuses, "warnings": self._warnings}
        try:
            replace_file(self._file, json.dumps(content), survives_power_failure=False)
            self._published = current
        except OSError as failure:
            self.warn(f"the status could not be written for a while: {failure.strerror}")
