"""From a file to a CPU log, exactly once, while processes die.

A sender follows a file, through a proxy that cuts connections, to a receiver; a query
reads the receiver's log into `cpu_log`. Sender, receiver, connection, driver and any other process
of the query are killed at random: 100 times, one or two at a time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from spark_connector_tests.query_process import wait_until
from tests.faults.cutting_proxy import CuttingProxy
from tests.faults.log_account import items_in
from tests.faults.query_family import Service
from tests.faults.spare_driver import SECONDS
from tests.receivers import ReceiverProcess
from workbook.senders import Command

CHANCE = random.Random(20261123)
KINDS = ["sender", "receiver", "connection", "driver", "query"]
ROUNDS = [CHANCE.sample(KINDS, CHANCE.choice([1, 2])) for _ in range(100)]
LINES = 10_000  # between two kills


class Line:
    """The whole pipeline: the file that is sent, and the CPU log at its end."""

    def __init__(self, folder: Path, port: int, cleanup: ExitStack) -> None:
        self.file, self._written = folder / "sent.log", 0
        self._lost = 0  # connections, with what was killed
        self._log = folder / "out"
        self.file.touch()
        self.receiver = cleanup.enter_context(ReceiverProcess(folder / "log", port))
        self.proxy = cleanup.enter_context(CuttingProxy(port))
        words = ("send", "--follow", self.file, "--port", self.proxy.port, "--name", "host-7")
        self.sender = Command(*words, output=folder / "sent.sender")
        cleanup.callback(lambda: self.sender.close())
        self.service = Service(folder, port, cleanup)

    def write(self, count: int) -> None:
        numbers = range(self._written, self._written + count)
        with self.file.open("a") as file:
            file.writelines(f"line-{number}\n" for number in numbers)
        self._written += count

    def keep_up(self) -> None:
        """Restart what has ended, as a service manager does."""
        self.receiver.keep_up()
        if not self.sender.running:
            self.sender.restart()
        self.service.keep_up()

    def is_up(self, kind: str) -> bool:
        """Return whether it has come up since it was last killed."""
        self.keep_up()
        if kind in ("sender", "connection"):
            return self.proxy.connections > self._lost
        if kind == "receiver":
            return self.receiver.is_up()
        return any(name.startswith("worker") for name in self.service.family())

    def kill(self, kind: str) -> None:
        if kind in ("sender", "receiver", "connection"):
            self._lost = self.proxy.connections
        if kind == "sender":
            self.sender.kill()
        elif kind == "receiver":
            self.receiver.kill()
        elif kind == "connection":
            self.write(1_013)
            self.proxy.cut()
        else:
            family = self.service.family()
            name = "driver" if kind == "driver" else CHANCE.choice(sorted(family))
            with suppress(psutil.NoSuchProcess):
                CHANCE.choice(family[name]).kill()

    def is_complete(self) -> bool:
        self.keep_up()
        files = self._log.glob("data.*.csv")
        return sum(file.read_bytes().count(b"\n") for file in files) >= self._written

    def check(self) -> None:
        found = items_in(self._log)
        assert found.keys() == {f"line-{number}" for number in range(self._written)}
        assert set(found.values()) == {1}, "duplicates"


@pytest.fixture
def line(tmp_path: Path, free_ports: Callable[[int], int]) -> Iterator[Line]:
    with ExitStack() as cleanup:
        yield Line(tmp_path, free_ports(1), cleanup)


@pytest.mark.soak
def test_random_kills_lose_and_repeat_nothing(line: Line) -> None:
    """Notebook 17 kills each of these once, and the tests of named senders cut connections."""
    for kinds in ROUNDS:
        line.write(LINES)
        for kind in kinds:
            wait_until(lambda: line.is_up(kind), SECONDS, f"the {kind} up again")  # noqa: B023
        time.sleep(CHANCE.uniform(0, 0.3))  # somewhere in the next batch
        for kind in kinds:
            line.kill(kind)
    wait_until(line.is_complete, 5 * SECONDS, "all lines in the CPU log")
    line.check()
