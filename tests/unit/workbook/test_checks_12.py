"""The checks of notebook 12: right answers pass, typical wrong ones get their hint."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tutorial_pkg.workbook.checks import check_12_1, check_12_2


class Client:
    def __init__(self, context: Any) -> None:
        self.socket = socket.create_connection(("127.0.0.1", context.options.port))
        self.socket.settimeout(0.2)
        self.rest = b""

    def fill(self, buffer: Any) -> None:
        try:
            data = self.socket.recv(65536)
        except TimeoutError:
            return
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            buffer.add(line.decode())
        if not data:
            buffer.close()

    def close(self) -> None:
        self.socket.close()


class Torn(Client):
    def fill(self, buffer: Any) -> None:
        for line in self.socket.recv(65536).decode().split():
            buffer.add(line)


class Waiting(Client):
    def fill(self, buffer: Any) -> None:
        self.socket.settimeout(20)
        super().fill(buffer)


class Endless(Client):
    def fill(self, buffer: Any) -> None:
        buffer_close, buffer.close = buffer.close, lambda: None
        super().fill(buffer)
        buffer.close = buffer_close


class ByPiece(Client):
    """Decodes what comes, and not the whole line."""

    errors = "strict"
    text = ""

    def fill(self, buffer: Any) -> None:
        try:
            data = self.socket.recv(65536)
        except TimeoutError:
            return
        *lines, self.text = (self.text + data.decode(errors=self.errors)).split("\n")
        for line in lines:
            buffer.add(line)
        if not data:
            buffer.close()


class Careless(ByPiece):
    errors = "ignore"


class WithTheRest(Client):
    def fill(self, buffer: Any) -> None:
        super().fill(buffer)
        if buffer.closed:
            buffer.add(self.rest.decode())


class LeftOpen(Client):
    def close(self) -> None:
        pass


class Sender:
    def __init__(self, context: Any) -> None:
        self.socket = socket.create_connection(("127.0.0.1", context.options.port))

    def receive(self, row: Any) -> None:
        self.socket.sendall(f"{row.line}\n".encode())

    def close(self) -> None:
        self.socket.close()


class WithoutNewline(Sender):
    def receive(self, row: Any) -> None:
        self.socket.sendall(row.line.encode())


class Unsent(Sender):
    def receive(self, row: Any) -> None:
        self.kept = row


class SenderLeftOpen(Sender):
    def close(self) -> None:
        pass


def test_right_answers_pass() -> None:
    assert check_12_1(Client).passed, check_12_1(Client)
    assert check_12_2(Sender).passed, check_12_2(Sender)


def test_no_answer_is_no_fault() -> None:
    assert not check_12_1(None).answered and not check_12_2(None).answered


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (3, "A class is wanted"),
        (Torn, "A line is whole when its newline is there"),
        (Waiting, "`fill` waits for what has not come"),
        (Endless, "call `buffer.close()`"),
        (ByPiece, "join the bytes, then decode"),
        (Careless, "join, then decode"),
        (WithTheRest, "What is behind the last newline is no line"),
        (LeftOpen, "`close` closes the socket"),
        (Sender, "It raised AttributeError"),
    ],
)
def test_wrong_sources(wrong: Any, hint: str) -> None:
    verdict = check_12_1(wrong)
    assert not verdict.passed and hint in verdict.message


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (3, "A class is wanted"),
        (WithoutNewline, "1 lines arrived"),
        (Unsent, "0 lines arrived"),
        (SenderLeftOpen, "`close` closes the socket"),
    ],
)
def test_wrong_sinks(wrong: Any, hint: str) -> None:
    verdict = check_12_2(wrong)
    assert not verdict.passed and hint in verdict.message
