"""What a client says and what it gets: plain lines, a sender with a name, rsyslog's RELP.

`docs/formats/network_lines.md` has the protocols.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any

try:
    import numpy
except ModuleNotFoundError:  # which Arrow does not require
    numpy = None  # type: ignore[assignment]

from tutorial_pkg.connectors.network_lines.connection import Connection
from tutorial_pkg.connectors.network_lines.positions import Entries
from tutorial_pkg.connectors.network_lines.protocol import (
    GREETING,
    HEAD_BYTES,
    MOST_HEADER_BYTES,
    VERSION,
    RefusedError,
    check_lines,
    json_line,
    parse_object,
)

SMALL_BYTES = 4096
SMALL_SECONDS = 0.005  # between two frames of a sender that writes single lines
FRAME_BYTES = 256 * 1024  # unless a line or message is longer
MOST_ENTRY_BYTES = 4096
MOST_LEVELS = 100  # lists and objects in an entry

_NAME = re.compile(r"[\w.:/@ -]{1,200}")
_RELP_HEADER = re.compile(rb"(\d{1,9}) ([A-Za-z]{1,32}) (?:(\d{1,9}) |0(?=\n))")
_RELP_START = re.compile(rb"\d{1,9}(?: (?:[A-Za-z]{1,32}(?: \d{0,9})?)?)?")  # of a header
_RELP_OFFER = b"200 OK\nrelp_version=0\nrelp_software=tutorial_pkg\ncommands=syslog"
_RELP_REPLIES = {b"syslog": b"200 OK", b"open": _RELP_OFFER}
_RELP_COMMAND_BYTES = 4096  # of any command but `syslog`
_SKIPPED_AT_ONCE = 64 * 1024


def serve(connection: Connection) -> None:
    """Store what a client sends until it ends its side.

    Raises `RefusedError` for a client that speaks something else than the port, or breaks its
    protocol. What it sent before is stored, and confirmed if the protocol has replies.
    """
    try:
        if connection.port.options.protocol == "relp":
            RelpSession(connection).run()
        elif _greets(connection):
            _serve_named(connection)
        else:
            _serve_lines(connection)
    finally:
        connection.confirm()


# ---- Plain lines ---------------------------------------------------------------------------------


def _serve_lines(connection: Connection) -> None:
    """Store lines until the client ends its side.

    Raises `RefusedError` for a client that speaks another protocol.
    """
    port, unfinished = connection.port, connection.inbox
    is_first, is_skipping, is_small, searched = True, False, False, 0
    try:
        while True:
            if is_first and searched < HEAD_BYTES:
                check_lines(bytes(unfinished[:HEAD_BYTES]))
            end = unfinished.find(b"\n", searched)
            # `fill` adds no more than a line may have, so only the first line can be too long.
            size = end if end >= 0 else len(unfinished)
            if size > port.options.maxLineBytes and not is_skipping:
                connection.drop("too_long")
                is_skipping = True
            if is_skipping:
                del unfinished[: size + 1]
                is_skipping = end < 0
            if end >= 0:
                is_first, connection.active_at = False, time.monotonic()
                lines = connection.read(unfinished.rfind(b"\n") + 1)
                _store(connection, lines)
                is_small = len(lines) < SMALL_BYTES
            searched = len(unfinished)
            if not connection.fill():
                break
            if is_small:
                time.sleep(max(0.0, connection.active_at + SMALL_SECONDS - time.monotonic()))
        if unfinished and port.options.unterminated == "keep":
            _store(connection, bytes(unfinished) + b"\n")
            port.count(kept_unterminated=1)
            unfinished.clear()
    finally:
        if unfinished:
            connection.drop("unterminated")


def _store(connection: Connection, lines: bytes) -> None:
    """Store a frame, or the two halves of one that is beyond the limits."""
    port, rows = connection.port, _count_newlines(lines)
    if rows > 1 and (rows > port.frame_rows or len(lines) > port.frame_bytes):
        middle = lines.rfind(b"\n", 0, len(lines) // 2) + 1 or lines.find(b"\n") + 1
        _store(connection, lines[:middle])
        _store(connection, lines[middle:])
    elif rows:
        port.append(connection.client, lines, rows)


def _count_newlines(lines: bytes) -> int:
    """NumPy takes a quarter of the time of `bytes.count`, which also holds up all other threads."""
    if numpy is None:
        return lines.count(b"\n")
    return int(numpy.count_nonzero(numpy.frombuffer(lines, numpy.uint8) == ord("\n")))


# ---- A sender with a name ------------------------------------------------------------------------


def _greets(connection: Connection) -> bool:
    """Return whether the first bytes are the greeting of a sender with a name."""
    while len(connection.inbox) < len(GREETING) and GREETING.startswith(bytes(connection.inbox)):
        if not connection.fill():
            break
    return connection.inbox.startswith(GREETING)


def _serve_named(connection: Connection) -> None:
    """Store blocks. A killed sender may leave part of one, which is not stored."""
    try:
        name = _parse_greeting(connection.read_line(MOST_HEADER_BYTES))
        _check_certificate(name, connection.certified)
        with connection.port.positions.used(name) as entries:
            _exchange(connection, name, {key: json.loads(text) for key, text in entries.items()})
    except EOFError:
        return
    except RefusedError as why:
        why.reply = json_line(refused=str(why), in_use=why.reason == "in_use")
        raise


def _exchange(connection: Connection, name: str, position: dict[str, Any]) -> None:
    port, most_line_bytes, stored = connection.port, connection.port.options.maxLineBytes, 0
    block_bytes = min(FRAME_BYTES, port.frame_bytes)
    most_bytes = block_bytes + most_line_bytes
    welcome = json_line(
        position=position,
        block_bytes=block_bytes,
        block_rows=port.frame_rows,
        line_bytes=most_line_bytes,
        idle_seconds=port.options.idleTimeout,
        header_bytes=MOST_HEADER_BYTES,
    )
    connection.say(welcome)
    while True:
        header = _parse(connection.read_line(MOST_HEADER_BYTES), "the header of a block")
        size, changes = header.get("bytes"), _changes(header.get("position"))
        if type(size) is not int or not 0 <= size <= most_bytes:
            raise RefusedError(f"a block has 0 to {most_bytes} bytes, got {size!r:.40}")
        if size and changes is None:
            raise RefusedError("a block needs the position behind it, a JSON object")
        lines = connection.read(size)
        connection.active_at = time.monotonic()
        rows = _count_rows(lines, port.frame_rows, most_line_bytes)
        if changes is not None:
            port.append(connection.client, lines, rows, {name: changes})
            stored += 1
        connection.confirm_later(json_line(stored=stored), rows)


def _parse_greeting(line: bytes) -> str:
    """Return the name."""
    fields = _parse(line.removeprefix(GREETING), "a greeting")
    version, name = fields.get("version"), fields.get("name")
    if version != VERSION:
        text = f"the sender speaks version {version!r:.40}, the receiver {VERSION}"
        raise RefusedError(f"{text}; update the older one")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        text = f"a name has 1 to 200 letters, digits, blanks or ._:/@-, got {name!r:.40}"
        raise RefusedError(text)
    return name


def _check_certificate(name: str, certified: list[str]) -> None:
    """With certificates, a sender may use the names in its own, and names below them."""
    if certified and not any(name == own or name.startswith(f"{own}/") for own in certified):
        raise RefusedError(
            f"the certificate is for {', '.join(certified)}, and the name is {name!r}; use "
            f"{certified[0]!r} or a name below it such as '{certified[0]}/app'"
        )


def _changes(position: Any) -> Entries | None:
    """Return the entries that a block changes, as JSON; none for a sign of life."""
    if not isinstance(position, dict):
        return None
    changes: dict[str, str | None] = {}
    for key, value in position.items():
        text = json.dumps(value, separators=(",", ":"))
        levels = text.count("[") + text.count("{")
        if len(json.dumps(key)) + len(text) > MOST_ENTRY_BYTES or levels > MOST_LEVELS:
            raise RefusedError(
                f"an entry of a position has at most {MOST_ENTRY_BYTES} bytes, and {MOST_LEVELS} "
                "lists or objects"
            )
        changes[key] = None if value is None else text
    return changes


def _count_rows(lines: bytes, most_rows: int, most_bytes: int) -> int:
    rows = _count_newlines(lines)
    if (lines and not lines.endswith(b"\n")) or rows > most_rows:
        raise RefusedError(f"a block is whole lines, at most {most_rows} of them")
    longest = max(map(len, lines.split(b"\n"))) if len(lines) > most_bytes else 0
    if longest > most_bytes:
        raise RefusedError(f"a line has {longest} bytes, and maxLineBytes is {most_bytes}")
    return rows


def _parse(text: bytes, what: str) -> Mapping[str, Any]:
    try:
        return parse_object(text)
    except ValueError:
        raise RefusedError(f"not {what}: {text[:80]!r}") from None


# ---- RELP ----------------------------------------------------------------------------------------


class RelpSession:
    """The dialogue with rsyslog's `omrelp`. A frame is `number command length data` and a newline.

    Without data, a newline follows the length 0.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self._port = connection, connection.port
        self._messages: list[bytes] = []  # complete, not in the log yet
        self._size, self._replies = 0, b""
        self._most_bytes = min(FRAME_BYTES, self._port.frame_bytes)

    def run(self) -> None:
        """Store messages until the client ends its side; those before an error, too."""
        try:
            while header := self._next_header():
                self._reply_to(int(header[1]), header[2], self._data(header))
        except EOFError:
            raise _broken_relp("the connection ended in the middle of a frame") from None
        finally:
            self._store()

    def _next_header(self) -> re.Match[bytes] | None:
        """Return the next frame's header, which stays in the inbox, or None at a good end."""
        inbox = self._connection.inbox
        while not (header := _RELP_HEADER.match(inbox)):
            if inbox and not _RELP_START.fullmatch(inbox):
                text = f"this port expects RELP (`protocol=relp`), got {bytes(inbox[:40])!r}"
                raise RefusedError(text, "relp")
            self._store()
            if not self._connection.fill():
                if inbox:
                    raise EOFError
                return None
        return header

    def _data(self, header: re.Match[bytes]) -> bytes:
        """Return the frame's data, of a long message the start and a mark."""
        number, command, size = header[1].decode(), header[2], int(header[3] or 0)
        if command != b"syslog" and size > _RELP_COMMAND_BYTES:
            raise _broken_relp(f"the command {command.decode()} has {size} bytes")
        self._connection.read(header.end())
        data = self._connection.read(min(size, self._port.options.maxLineBytes))
        rest = size - len(data)
        if rest and command == b"syslog":
            data += b" [cut, had %d bytes]" % size
            self._port.count(truncated=1)
        while rest:
            rest -= len(self._connection.read(min(rest, _SKIPPED_AT_ONCE)))
        if self._connection.read(1) != b"\n":
            raise _broken_relp(f"frame {number} does not end with a newline")
        self._connection.active_at = time.monotonic()
        return data

    def _reply_to(self, number: int, command: bytes, data: bytes) -> None:
        if command == b"close":
            self._replies += b"%d rsp 0\n0 serverclose 0\n" % number
            return
        if command == b"syslog":
            is_enough = len(self._messages) >= self._port.frame_rows
            if is_enough or self._size + len(data) > self._most_bytes:
                self._store()
            self._messages.append(data)
            self._size += len(data) + 1
        text = _RELP_REPLIES.get(command, b"500 unknown command")
        self._replies += b"%d rsp %d %s\n" % (number, len(text), text)

    def _store(self) -> None:
        """Store the messages so far, with their lengths if newlines cannot separate them."""
        messages, replies = self._messages, self._replies
        self._messages, self._size, self._replies = [], 0, b""
        lines = b"".join(message + b"\n" for message in messages)
        is_ambiguous = lines.count(b"\n") > len(messages) or b"\r\n" in lines
        lengths = [len(message) for message in messages] if is_ambiguous else None
        if messages:
            self._port.append(self._connection.client, lines, len(messages), lengths=lengths)
        if replies:
            self._connection.confirm_later(replies, len(messages))


def _broken_relp(text: str) -> RefusedError:
    return RefusedError(text, "relp", b"0 serverclose 0\n")
