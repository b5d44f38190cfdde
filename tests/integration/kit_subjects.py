"""This package's formats, and connectors of the builder, described for the conformance kit."""

from __future__ import annotations

import os
import sqlite3
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from queue import Full, Queue
from threading import Thread
from typing import Any

import psutil

from examples import sqlite_sink, sse_source
from spark_connector_tests import LIMIT, Server, StreamSink, StreamSource
from spark_connector_tests.query_process import wait_until
from tests.certificates import Certificates
from tests.conftest import first_of_free_ports
from tests.event_server import EventServer
from tests.integration.kit_source_mutants import numbers_in
from tests.receivers import ReceiverProcess
from tutorial_pkg import (
    CpuLogDataSource,
    FileLinesDataSource,
    NetworkLinesDataSource,
    SourceBuilder,
    network_status,
    send_lines,
)
from tutorial_pkg.builder import REQUIRED, Buffer, not_empty
from tutorial_pkg.connectors.network_lines.sender import Channel, finish

SPLIT_BY_SIZE = "files are split by size, not by an option"

# ---- Formats -------------------------------------------------------------------------------------


def file_lines(folder: Path) -> StreamSource:
    def feed(numbers: Sequence[int], file: int = 0) -> None:
        with (folder / f"{file}.txt").open("a") as lines:
            lines.write("".join(f"{number}\n" for number in numbers))

    def halves(number: int) -> Iterator[None]:
        with (folder / "0.txt").open("a") as lines:
            lines.write(str(number)[:-1])
            lines.flush()
            yield
            lines.write(f"{str(number)[-1]}\n")

    feed([])
    return StreamSource(
        FileLinesDataSource,
        {"path": folder / "*.txt"},
        feed=feed,
        feed_halves=halves,
        feed_split=lambda file, numbers: feed(numbers, file),
        row=lambda number: {"value": str(number)},
        limit={"maxRowsPerTrigger": LIMIT},
        not_claimed={"other_parallelism": SPLIT_BY_SIZE},
    )


def cpu_log_source(folder: Path) -> StreamSource:
    def feed(numbers: Sequence[int], file: int = 0) -> None:
        with (folder / f"data.{file}.csv").open("a") as lines:
            lines.write("".join(f"1700000000000,0.500000,{number}\n" for number in numbers))

    def row(number: int) -> dict[str, object]:
        return {"timestamp": datetime.fromtimestamp(1_700_000_000, UTC), "cpu_usage": 0.5}

    return StreamSource(
        CpuLogDataSource,
        {"path": folder},
        number="item",
        feed=feed,
        feed_split=lambda file, numbers: feed(numbers, file),
        row=row,
        limit={"maxRowsPerTrigger": LIMIT},
        not_claimed={"other_parallelism": SPLIT_BY_SIZE},
    )


def network_lines(
    folder: Path, tls: ssl.SSLContext | None = None, **options: object
) -> StreamSource:
    port = first_of_free_ports(2)

    def listening() -> bool:
        """Ignore the reader of a driver that was killed: it lives some seconds longer."""
        status = network_status(folder)
        with suppress(psutil.NoSuchProcess):
            parents = psutil.Process(status.process).parents()
            return status.listening and os.getpid() in {process.pid for process in parents}
        return False

    def feed(numbers: Sequence[int]) -> None:
        wait_until(listening, 60, "listening")
        send_lines("127.0.0.1", port, [str(number) for number in numbers], tls=tls)

    def halves(number: int) -> Iterator[None]:
        wait_until(listening, 60, "listening")
        with Channel(("127.0.0.1", port), tls) as sender:
            sender.send(str(number)[:-1].encode())
            yield
            sender.send(f"{str(number)[-1]}\n".encode())
            finish(sender)

    return StreamSource(
        NetworkLinesDataSource,
        {"path": folder, "port": port, **options},
        feed=feed,
        feed_when_stopped=False,
        feed_halves=halves,
        row=lambda number: {"value": str(number)},
        limit={"maxRowsPerTrigger": LIMIT},
        other_parallelism={"parallelism": 2},
    )


def network_lines_tls(folder: Path) -> StreamSource:
    """With certificates on both sides."""
    (folder / "certificates").mkdir(parents=True)
    certificates = Certificates(folder / "certificates")
    return network_lines(
        folder,
        certificates.client("host-7"),
        tlsCertificate=certificates.server,
        tlsClientCa=certificates.ca,
        allowedClients="host-7",
    )


def received_lines(folder: Path) -> StreamSource:
    """Read from a receiver in its own process, which is killed, stopped and paused."""
    port = first_of_free_ports(1)
    receiver = ReceiverProcess(folder, port, "--max-rows-per-trigger", LIMIT)
    receiver.start()
    return StreamSource(
        NetworkLinesDataSource,
        {"path": folder},
        feed=lambda numbers: send_lines("127.0.0.1", port, [str(number) for number in numbers]),
        row=lambda number: {"value": str(number)},
        limit={"maxRowsPerTrigger": LIMIT},
        server=Server(receiver.kill, receiver.start, lambda: [receiver.pid]),
        close=receiver.kill,
    )


def cpu_log_sink(folder: Path) -> StreamSink:
    def read() -> list[str]:
        texts = [file.read_bytes() for file in folder.glob("data.*.csv")]
        lines = [line for text in texts for line in text.decode().split("\n")[:-1]]
        return [restored(line.split(",", 2)[2]) for line in lines]

    return StreamSink(
        CpuLogDataSource,
        read,
        {"path": folder, "maxFileBytes": 20_000},
        not_claimed={
            "whole_batches": "a batch is appended to one file after the other",
            "nulls": "a line of text has no null: it becomes an empty item",
        },
    )


def restored(item: str) -> str:
    """The item of a line, with what it escapes."""
    parts = item.split("\\\\")
    return "\\".join(part.replace("\\n", "\n").replace("\\r", "\r") for part in parts)


# ---- Connectors of the builder -------------------------------------------------------------------


class Inbox:
    """Letters, each with some numbers; the snapshot is the name of the last one that was read."""

    def __init__(self, context: Any) -> None:
        self.folder, self.mine = Path(context.options.letters), context.index == 0
        self.last = ""

    def fill(self, buffer: Buffer) -> None:
        letters = sorted(self.folder.glob("*.txt")) if self.mine else []
        for letter in [letter for letter in letters if letter.name > self.last][:1]:
            for line in letter.read_text().split():
                buffer.add(int(line))
            self.last = letter.name

    def go_to(self, snapshots: list[str]) -> None:
        self.last = max(snapshots)


def post(folder: Path, numbers: Sequence[int]) -> None:
    """Write a letter; its name sorts behind those of earlier letters."""
    draft = folder / ".draft"
    draft.write_text("".join(f"{number}\n" for number in numbers))
    draft.rename(folder / f"{len(list(folder.glob('*.txt'))):09}.txt")


def stream_of(kind: type[Any], folder: Path) -> StreamSource:
    letters = folder / "letters"
    letters.mkdir()
    builder = SourceBuilder.stream(kind.__name__.lower(), "value LONG", kind).fill(kind.fill)
    builder = builder.snapshot(lambda state: state.last).restore(kind.go_to)
    builder = builder.option("letters", not_empty, REQUIRED, "the folder of letters")
    options = {"path": folder / "log", "letters": letters}
    return StreamSource(builder.build(), options, feed=lambda numbers: post(letters, numbers))


def built_stream(folder: Path) -> StreamSource:
    return replace(stream_of(Inbox, folder), other_parallelism={"parallelism": 2})


def built_pushed(folder: Path) -> StreamSource:
    """Read server-sent events, as `examples/` shows."""
    server = EventServer()
    return StreamSource(
        sse_source.source,
        {"path": folder, "url": server.url},
        number="data",
        feed=server.numbers.extend,
        row=lambda number: {"data": str(number)},
        not_claimed={"other_parallelism": "each instance resumes at its own position"},
        close=server.shutdown,
    )


class Listener:
    """Takes letters in a thread; if its queue is full, it starts again after the last row."""

    def __init__(self, context: Any) -> None:
        self.folder, self.queue = context.options.letters, Queue[tuple[int, int]](5_000)
        self.last = self.taken = 0
        self.thread = Thread(target=self.listen, daemon=True)

    def listen(self) -> None:
        while True:
            with suppress(Full):
                for number in numbers_in(self.folder)[self.taken :]:
                    self.taken += 1  # the mistake: the queue doesn't have it yet
                    self.queue.put_nowait((self.taken, number))
            time.sleep(0.02)

    def fill(self, buffer: Buffer) -> None:
        if not self.thread.is_alive():
            self.taken = self.last
            self.thread.start()
        for _ in range(min(self.queue.qsize(), 100)):
            self.last, number = self.queue.get()
            buffer.add(number)

    def go_to(self, snapshots: list[int]) -> None:
        self.last = max(snapshots)


def full_queue(folder: Path) -> StreamSource:
    return stream_of(Listener, folder)


def lines_of(context: Any, split: str, start: int, end: int) -> Iterator[int]:
    yield from map(int, (Path(context.options.letters) / split).read_text().split()[start:end])


def built_replayable(folder: Path) -> StreamSource:
    def look(context: Any) -> dict[str, tuple[int, int]]:
        letters = Path(context.options.letters).glob("*.txt")
        return {letter.name: (0, letter.read_text().count("\n")) for letter in letters}

    def write(letter: int, numbers: Sequence[int]) -> None:
        with (folder / f"split {letter}.txt").open("a") as lines:
            lines.write("".join(f"{number}\n" for number in numbers))

    builder = SourceBuilder.replayable("letters", "value LONG", look, lines_of)
    builder = builder.option("letters", not_empty, REQUIRED, "the folder of letters")
    return StreamSource(
        builder.build(),
        {"letters": folder},
        feed=lambda numbers: post(folder, numbers),
        feed_split=write,
        row=lambda number: {"value": number},
        limit={"maxRowsPerTrigger": LIMIT},
        not_claimed={"other_parallelism": "each split is a task, without an option"},
    )


def built_sink(folder: Path) -> StreamSink:
    """Write into SQLite, as `examples/` shows."""
    database = folder / "rows.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE rows (value)")

    def read() -> list[str | None]:
        with closing(sqlite3.connect(database)) as connection:
            return [value for (value,) in connection.execute("SELECT value FROM rows")]

    return StreamSink(sqlite_sink.sink, read, {"file": database, "table": "rows"})
