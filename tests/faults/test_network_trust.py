"""From a file to a CPU log, exactly once, whatever dies on the way.

A sender follows a file, through a proxy that cuts connections, to a receiver of its own; a query
reads the receiver's log into `cpu_log`. Sender, receiver, driver and workers are killed, each once
here, and 100 times in the soak test, one or two at a time.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from tests.faults.cutting_proxy import CuttingProxy
from tests.faults.log_account import items_in
from tests.faults.spare_driver import SECONDS
from tests.faults.test_family_kills import Service
from tests.receivers import ReceiverProcess
from tutorial_pkg.processes.query_process import wait_until

SOAK_KILLS = int(os.environ.get("TUTORIAL_PKG_KILLS", "100"))
CHANCE = random.Random(20261123)


class Sender:
    """`python -m tutorial_pkg send --follow`, made to be killed."""

    def __init__(self, file: Path, port: int) -> None:
        words = ["send", "--follow", file, "--port", port, "--name", "host-7"]
        self._command = [sys.executable, "-m", "tutorial_pkg", *map(str, words)]
        self._process: subprocess.Popen[bytes] | None = None
        self._output = file.with_suffix(".sender")

    def __enter__(self) -> Sender:
        self.keep_up()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def keep_up(self) -> None:
        if self._process is None or self._process.poll() is not None:
            with self._output.open("ab") as output:
                self._process = subprocess.Popen(self._command, stderr=output)

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()


class Line:
    """All of it: what is sent, and what is in the CPU log."""

    def __init__(self, folder: Path, port: int, cleanup: ExitStack) -> None:
        self.file, self._written = folder / "sent.log", 0
        self._log = folder / "out"
        self.file.touch()
        self.receiver = cleanup.enter_context(ReceiverProcess(folder / "log", port))
        self.proxy = cleanup.enter_context(CuttingProxy(port))
        self.sender = cleanup.enter_context(Sender(self.file, self.proxy.port))
        self.service = Service(folder, port, cleanup)

    def write(self, count: int) -> None:
        numbers = range(self._written, self._written + count)
        with self.file.open("a") as file:
            file.writelines(f"line-{number}\n" for number in numbers)
        self._written += count

    def keep_up(self) -> None:
        """As whoever watches over services does."""
        self.receiver.keep_up()
        self.sender.keep_up()
        self.service.keep_up()

    def kill(self, kind: str) -> None:
        if kind == "sender":
            self.sender.kill()
        elif kind == "receiver":
            self.receiver.kill()
        elif kind == "connection":
            self.proxy.cut()
        else:
            self._kill_in_family(kind)

    def _kill_in_family(self, kind: str) -> None:
        kinds = self.service.family()
        found = [each for name in kinds if name.startswith(kind) for each in kinds[name]]
        if found:
            with suppress(psutil.NoSuchProcess):
                CHANCE.choice(found).kill()

    def is_complete(self) -> bool:
        self.keep_up()
        return self.lines().total() >= self._written

    def lines(self) -> Counter[str]:
        return items_in(self._log)

    def check(self) -> None:
        found = self.lines()
        assert found.keys() == {f"line-{number}" for number in range(self._written)}
        assert set(found.values()) == {1}, "there twice"


@pytest.fixture
def line(tmp_path: Path, free_ports: Callable[[int], int]) -> Iterator[Line]:
    with ExitStack() as cleanup:
        yield Line(tmp_path, free_ports(1), cleanup)


KINDS = ["sender", "receiver", "connection", "worker", "driver"]


def test_each_kind_is_killed_once_and_every_line_is_there_once(line: Line) -> None:
    for kind in KINDS:
        line.write(5_003)
        time.sleep(CHANCE.uniform(0, 0.5))  # somewhere in the next batch
        line.kill(kind)
    wait_until(line.is_complete, 2 * SECONDS, "all lines in the CPU log")
    line.check()


@pytest.mark.soak
def test_100_kills_and_a_million_lines(line: Line) -> None:
    """`TUTORIAL_PKG_KILLS=10` makes it shorter."""
    for _ in range(SOAK_KILLS):
        line.write(10_000)
        time.sleep(CHANCE.uniform(0, 1))
        for kind in CHANCE.sample(KINDS, CHANCE.choice([1, 2])):
            line.kill(kind)
        line.keep_up()
        if CHANCE.random() < 0.2:
            wait_until(line.is_complete, 3 * SECONDS, "all lines in the CPU log")
    wait_until(line.is_complete, 5 * SECONDS, "all lines in the CPU log")
    line.check()
