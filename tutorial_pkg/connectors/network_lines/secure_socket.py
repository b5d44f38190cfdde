"""A socket that speaks TLS: OpenSSL works in memory, and the socket moves its output in one go.

`ssl.SSLSocket` asks the system twice for each record that comes and once for each that goes, and a
record has 16 KiB at most. Here one call moves many of them.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import Any

MOVED_BYTES = 128 * 1024  # at once, between the socket and memory


class SecureSocket:
    """Speaks TLS over `plain`; without the server's name it is the server itself.

    As with a plain socket that does not wait, `BlockingIOError` says try again. If the other side
    is gone without having said that it ends, `ConnectionResetError` is raised.
    """

    def __init__(
        self, plain: socket.socket, context: ssl.SSLContext, server_name: str | None = None
    ) -> None:
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_name is None, server_name
        )
        self._unsent = memoryview(b"")  # encrypted
        self._encrypted = 0  # bytes of the caller's that `_unsent` stands for
        self.has_more = False  # whether there may be more, of which no selector knows
        self.fileno, self.setblocking = plain.fileno, plain.setblocking
        self.setsockopt, self.close = plain.setsockopt, plain.close
        self.getpeercert = self._tls.getpeercert

    def shake_hands(self) -> None:
        """Go on with the handshake. Raises `BlockingIOError` while it is under way, `OSError`."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._take()
            except ssl.SSLError:
                with suppress(OSError):
                    self._flush()  # it tells the other side why
                raise
            else:
                self._flush()
                self.has_more = self._incoming.pending > 0
                return

    def recv_into(self, room: memoryview) -> int:
        """Fill `room` as far as there is something; 0 when the other side has said that it ends."""
        if not self.has_more:
            self._take()
        filled, self.has_more = 0, True
        try:
            while filled < len(room):
                count: int = self._tls.read(len(room) - filled, room[filled:])  # type: ignore
                if not count:
                    break
                filled += count
        except ssl.SSLWantReadError:
            self.has_more = False
            if not filled:
                raise BlockingIOError from None
        except ssl.SSLZeroReturnError:  # both sides have ended
            return filled
        except (ssl.SSLEOFError, ssl.SSLSyscallError):
            if not filled:
                raise ConnectionResetError("the other side has not said that it ends") from None
        return filled

    def recv(self, size: int) -> bytes:
        """What is there; nothing when the other side has said that it ends."""
        room = memoryview(bytearray(size))
        return bytes(room[: self.recv_into(room)])

    def send(self, data: Any) -> int:
        """How much of `data` is on its way; the next call must begin with the rest of it."""
        left, sent = memoryview(data), 0
        try:
            while left:
                self._encrypted = self._encrypted or self._encrypt(left[:MOVED_BYTES])
                self._flush()
                sent += self._encrypted
                left, self._encrypted = left[self._encrypted :], 0
        except BlockingIOError:
            if not sent:
                raise
        return sent

    def end(self) -> None:
        """Say that nothing more comes; what the other side says can still be read."""
        with suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        self._flush()

    def _encrypt(self, data: memoryview) -> int:
        done = 0
        while done < len(data):
            done += self._tls.write(data[done:])
        return done

    def _flush(self) -> None:
        """Send what is encrypted. Raises `BlockingIOError` when not all of it could be."""
        while self._unsent or self._outgoing.pending:
            self._unsent = self._unsent or memoryview(self._outgoing.read())
            self._unsent = self._unsent[self._plain.send(self._unsent) :]

    def _take(self) -> None:
        """Hand to TLS what has come. Raises `BlockingIOError` when nothing has."""
        data = self._plain.recv(MOVED_BYTES)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
