"""A source and a sink for the ledger as a learner would write them, from its page of documentation.

The notebook's solutions do the same; wrong answers are made of these.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSource

from tutorial_pkg import SinkBuilder, SourceBuilder
from tutorial_pkg.builder import REQUIRED, not_empty


def line_of(stream: Any) -> str:
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise ConnectionError("the reply was cut")
    return str(line[:-1], "utf-8")


class Busy(ConnectionError):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"busy for {seconds} s")
        self.seconds = seconds


def ask(address: str, request: str, lines: Any = ()) -> list[str]:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall("".join(f"{line}\n" for line in [request, *lines]).encode())
        stream = connection.makefile("rb")
        word, _, rest = line_of(stream).partition(" ")
        if word == "NO":
            raise ValueError(rest)
        if word == "BUSY":
            raise Busy(float(rest))
        count = int(rest) if request.startswith("PAGE") else 0
        return [rest] + [line_of(stream) for _ in range(count)]


def patiently(work: Callable[[], Any]) -> Any:
    for _ in range(600):
        try:
            return work()
        except OSError as error:
            last = error
            time.sleep(error.seconds if isinstance(error, Busy) else 0.05)
    raise last


def last_of(context: Any, book: str) -> int:
    return int(patiently(lambda: ask(context.options.address, f"LAST {book}"))[0])


def look(context: Any) -> dict[str, tuple[int, int]]:
    book = context.options.book
    return {book: (1, last_of(context, book) + 1)}


def read(context: Any, book: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    found = {}
    page = (last_of(context, book) - (end - 1)) // 50
    while start not in found:
        request = f"PAGE {book} {page}"
        for line in patiently(lambda request=request: ask(context.options.address, request))[1:]:
            number, _, text = line.partition(" ")
            found[int(number)] = text
        page += 1
    yield from ((number, found[number]) for number in range(start, end))


def source_of(
    look: Callable[..., Any],
    read: Callable[..., Any],
    schema: str = "number LONG, text STRING",
    name: str = "orders",
) -> type[DataSource]:
    builder = SourceBuilder.replayable(
        name,
        schema,
        look=look,
        read=read,
    )
    builder = builder.option("address", not_empty, REQUIRED, "host:port of the ledger")
    return builder.option("book", not_empty, REQUIRED, "the book to read").build()


def commit(context: Any, handles: list[list[str]]) -> None:
    lines = [line for handle in handles for line in handle]
    book, memo = f"{context.options.book} {context.query}", str(context.batch)

    def append_once() -> None:
        if ask(context.options.address, f"MEMO {book}") != [memo]:
            ask(context.options.address, f"APPEND {book} {memo} {len(lines)}", lines)

    if lines:
        patiently(append_once)


def sink_of(commit: Callable[..., Any], name: str = "copies") -> type[DataSource]:
    builder = SinkBuilder.stream(name, create=lambda context: [])
    builder = builder.receive(lambda lines, row: lines.append(row.value))
    builder = builder.flush(lambda lines: lines).commit(commit)
    builder = builder.option("address", not_empty, REQUIRED, "host:port of the ledger")
    return builder.option("book", not_empty, REQUIRED, "the book to write").build()
