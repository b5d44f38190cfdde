"""A receiver of network_lines in its own process, made to be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from spark_connector_tests.query_process import wait_until
from tutorial_pkg.connectors.network_lines import network_status

SECONDS = 60


class ReceiverProcess:
    """`python -m tutorial_pkg receive FOLDER --port PORT …`; `with` starts it and waits."""

    def __init__(self, folder: Path, port: int, *words: object) -> None:
        self._folder = folder
        self._words = [str(word) for word in (folder, "--port", port, *words)]

    def __enter__(self) -> ReceiverProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        self.begin()
        wait_until(self._listens, SECONDS, "a receiver that listens")

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_up(self) -> bool:
        """Return whether this process listens."""
        status = network_status(self._folder)
        return status.listening and status.process == self._process.pid

    def begin(self) -> None:
        """Start it without waiting."""
        command = [sys.executable, "-m", "tutorial_pkg", "receive", *self._words]
        self._process = subprocess.Popen(command, env={**os.environ, "PYTHONUNBUFFERED": "1"})

    def keep_up(self) -> None:
        """Start it again if it has ended."""
        if self._process.poll() is not None:
            self.begin()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _listens(self) -> bool:
        assert self._process.poll() is None, "the receiver has ended"
        return self.is_up()
