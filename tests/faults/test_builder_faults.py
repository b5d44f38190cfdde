"""What built sources keep when their process is killed at any moment.

`TUTORIAL_PKG_KILLS=20` makes the random rounds longer.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import nats
import pytest

from tests.faults.builder_sources import STREAM, SUBJECT, all_sources
from tests.stream_runs import running
from tutorial_pkg.workbook.drills import wait_until

KILLS = int(os.environ.get("TUTORIAL_PKG_KILLS", "5"))
SCRIPT = Path(__file__).with_name("builder_sources.py")
PROJECT = Path(__file__).parents[2]


class Broker:
    """A NATS server with JetStream, and a thread that publishes 0, 1, 2 and so on to it."""

    def __init__(self, directory: Path, port: int) -> None:
        self.port, self.published = port, 0
        program = Path(sys.executable).with_name("nats-server")
        words = ["-js", "-sd", str(directory), "-a", "127.0.0.1", "-p", str(port)]
        self._log = (directory.parent / "nats.log").open("wb")
        self._server = subprocess.Popen([program, *words], stderr=self._log)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._publish()))

    def __enter__(self) -> Broker:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop_publishing()
        self._server.kill()
        self._server.wait()
        self._log.close()

    def stop_publishing(self) -> None:
        self._stopping.set()
        self._thread.join()

    async def _publish(self) -> None:
        client = await self._connected()
        broker = client.jetstream()
        await broker.add_stream(name=STREAM, subjects=[SUBJECT])
        while not self._stopping.is_set():
            for _ in range(5):
                await broker.publish(SUBJECT, str(self.published).encode())
                self.published += 1
            await asyncio.sleep(0.05)
        await client.close()

    async def _connected(self) -> nats.NATS:
        for _ in range(200):
            with suppress(OSError, nats.errors.NoServersError):
                return await nats.connect(f"nats://127.0.0.1:{self.port}", connect_timeout=1)
            await asyncio.sleep(0.05)
        raise TimeoutError("the NATS server did not start")


@pytest.fixture
def broker(tmp_path: Path, free_ports) -> Iterator[Broker]:
    with Broker(tmp_path / "nats", free_ports(1)) as opened:
        wait_until(lambda: opened.published, 20, "the broker's start")
        yield opened


def test_killed_at_random_moments(tmp_path: Path, broker: Broker) -> None:
    """Sources that can seek, that cannot, and that acknowledge, in one process that is killed."""
    for _ in range(KILLS):
        _run_and_kill(tmp_path, broker.port)
    broker.stop_publishing()
    found = _logged(tmp_path, broker)
    for index in range(2):
        mine = [number for number in found["counter"] if number % 2 == index]
        assert mine == list(range(index, index + 2 * len(mine), 2))
        assert len(mine) >= 7 * KILLS
    taken = (tmp_path / "machine").stat().st_size
    assert max(Counter(found["tickets"]).values()) == 1
    assert taken - 5 * KILLS <= len(found["tickets"]) <= taken
    assert Counter(found["mailbox"]) == Counter(range(broker.published))


def _run_and_kill(directory: Path, port: int) -> None:
    command = [sys.executable, str(SCRIPT), str(directory), str(port)]
    with (
        (directory / "process.log").open("ab") as log,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
        ) as process,
    ):
        assert process.stdout is not None
        filled = process.stdout.readline()
        assert filled == b"all have added something\n", (directory / "process.log").read_text()
        time.sleep(random.uniform(0.1, 1))
        process.kill()


def _logged(directory: Path, broker: Broker) -> dict[str, list[int]]:
    """All that is in the logs; the messages after a last run, which is not killed."""
    found = {}
    for name, (source, options) in all_sources(directory, broker.port).items():
        with running(source, directory / name, **options) as run:
            if name == "mailbox":  # what the killed ones had not acknowledged comes again
                found[name] = run.rows_until(lambda rows: len(rows) >= broker.published)
            else:
                run.reader.prepareForTriggerAvailableNow()
                found[name] = run.rows()
    return found
