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
from typing import TYPE_CHECKING, Generic, TypeVar

from tutorial_pkg.core.disk import replace_file
from tutorial_pkg.core.options import local_directory
from tutorial_pkg.durable_log.lock import writer_process

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PUBLISH_SECONDS = 0.25

Status = TypeVar("Status", bound="DataclassInstance")

_log = logging.getLogger(__name__)


def folder_of(path: str | Path) -> Path:
    """Return the folder of a log that `path` names, spelled as in `load(path)`."""
    with suppress(ValueError):  # on another file system there is no log
        return Path(local_directory(str(path)))
    return Path(path)


class StatusFile(Generic[Status]):
    """The file in `directory`. Under the name `key` it has a dataclass `kind` for each number."""

    def __init__(self, directory: Path, key: str, kind: type[Status]) -> None:
        self.directory = directory
        self._file, self._key, self._kind = directory / "status.json", key, kind

    def write(self, each: Mapping[int, Status], warnings: list[str]) -> None:
        """Replace the file in one step. Raises `OSError`."""
        numbers = {number: asdict(status) for number, status in each.items()}
        text = json.dumps({"process": os.getpid(), self._key: numbers, "warnings": warnings})
        replace_file(self._file, text, survives_power_failure=False)

    def read(self) -> tuple[int | None, dict[int, Status], list[str]]:
        """Return the writing process (None if it has ended), the statuses, and the warnings.

        They are empty before the first query, and if a power failure has torn the file.
        """
        try:
            content = json.loads(self._file.read_text())
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None, {}, []
        statuses = {int(key): self._kind(**fields) for key, fields in content[self._key].items()}
        is_alive = content["process"] == writer_process(self.directory)
        return content["process"] if is_alive else None, statuses, content["warnings"]


class StatusPublisher(threading.Thread, Generic[Status]):
    """Publishes what `current` returns whenever it has changed, until `stop`.

    A status that cannot be written, on a full disk for example, is written later, with a warning.
    """

    def __init__(
        self,
        file: StatusFile[Status],
        current: Callable[[], dict[int, Status]],
        warnings: list[str],
    ) -> None:
        super().__init__(name="status", daemon=True)
        self._file, self._current, self._warnings = file, current, warnings
        self._published: dict[int, Status] = {}
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

    def _publish_changes(self) -> None:
        current = self._current()
        if current == self._published:
            return
        try:
            self._file.write(current, self._warnings)
            self._published = current
        except OSError as failure:
            self.warn(f"the status could not be written for a while: {failure.strerror}")

    def warn(self, text: str) -> None:
        """Add a warning to the log and to the status, once."""
        if text not in self._warnings:
            self._warnings.append(text)
            _log.warning("%s: %s", self._file.directory, text)
