"""A sender's connection to a receiver, and why a receiver refuses a sender."""

from __future__ import annotations

import math
import select
import socket
import ssl
import time
from contextlib import suppress
from typing import Self

from tutorial_pkg.connectors.network_lines.protocol import REFUSED, SAYS

QUOTED = 120
CONNECT_SECONDS = 10.0
SILENT_SECONDS = 300.0  # longest wait for a receiver that neither reads nor replies
WAIT_SECONDS = 1.0  # between two calls of `on_wait`
LOOK_SECONDS = 0.1
REPLY_BYTES = 64 * 1024
_NOTHING_YET = (BlockingIOError, TimeoutError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_TLS_ALERT = b"\x15\x03"  # what a server that expects TLS replies to anything else
_NOT_TLS = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "RECORD_LAYER", "TOO_LONG")
_ABOUT_CERTIFICATES = ("certificate", "unknown ca", "access denied", "handshake failure")


class SenderRefusedError(ConnectionError):
    """The receiver refuses this sender, or cannot be trusted; the text says why.

    `certificate` means that one side does not trust the other's certificate. After a renewal it
    may.
    """

    def __init__(self, text: object, certificate: bool = False) -> None:
        super().__init__(text)
        self.certificate = certificate


class Channel:
    """A connection to a receiver. Its waits end with a `TimeoutError` after `patience` seconds.

    Raises `SenderRefusedError`, and `ConnectionError` for a connection that cannot be made or that
    broke.
    """

    def __init__(
        self,
        address: tuple[str, int],
        tls: ssl.SSLContext | None = None,
        patience: float | None = SILENT_SECONDS,
    ) -> None:
        self.where = f"{address[0]}:{address[1]}"
        self.patience = math.inf if patience is None else patience
        self._socket = _connect(address, tls)
        self._progress_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def interrupt(self) -> None:
        """Break the connection; another thread calls this."""
        with suppress(OSError):  # it is broken already
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def on_wait(self) -> None:
        """Check the patience; called about once a second while the receiver is slow."""
        if time.monotonic() - self._progress_at > self.patience:
            text = f"{self.where} has read nothing and replied nothing for {self.patience:g} s"
            raise TimeoutError(text)

    def send(self, data: bytes) -> None:
        """Send `data`. If the connection breaks, the error says why, if the receiver said so."""
        rest, was_full = memoryview(data), False
        self._socket.settimeout(self._step)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except TimeoutError:
                was_full = True
                self.on_wait()
                continue
            except OSError as error:
                broken = ConnectionResetError(f"{self.where}: the connection broke: {error}")
                raise self._reason(broken) from None
            if was_full:  # there is room again: the receiver reads
                self._progress_at = time.monotonic()

    def receive(self, seconds: float) -> bytes | None:
        """Return what the receiver replies, nothing at its end; None after so many seconds."""
        self._socket.settimeout(seconds)
        try:
            reply = self._socket.recv(REPLY_BYTES)
        except _NOTHING_YET:
            return None
        except ssl.SSLZeroReturnError:  # this side has ended, too
            reply = b""
        except (ssl.SSLEOFError, ssl.SSLSyscallError):
            text = "the receiver has gone without ending the connection"
            raise ConnectionResetError(text) from None
        except ssl.SSLError as error:
            reason = (error.reason or str(error)).replace("_", " ").lower()
            if any(word in reason for word in _ABOUT_CERTIFICATES):
                text = f"the receiver does not accept this sender's certificate: {reason}"
                raise SenderRefusedError(text, certificate=True) from None
            text = f"the receiver broke off the connection: {reason}"
            raise ConnectionResetError(text) from None
        self._progress_at = time.monotonic()
        return reply

    def wait(self) -> bytes:
        """Return the next part of the reply, nothing at its end."""
        while (reply := self.receive(self._step)) is None:
            self.on_wait()
        return reply

    def take(self, reply: bytes) -> None:
        """Take in a part of the reply. Raises `SenderRefusedError`."""
        raise_if_refused(reply)

    def _reason(self, broken: OSError) -> OSError:
        """Return what the receiver said before the connection broke, or that it broke."""
        try:
            self.take(self.receive(LOOK_SECONDS) or b"")
        except SenderRefusedError as refused:
            return refused
        except OSError:
            pass
        return broken

    def end(self) -> None:
        """Announce that nothing more comes."""
        try:
            if isinstance(self._socket, ssl.SSLSocket):
                self._close_notify(self._socket)
            else:
                self._socket.shutdown(socket.SHUT_WR)
        except TimeoutError:
            raise
        except OSError as error:  # "not connected": the receiver has reset it already
            raise ConnectionResetError(error.errno, error.strerror) from error

    def _close_notify(self, secured: ssl.SSLSocket) -> None:
        secured.settimeout(0)  # otherwise `unwrap` would wait for the other side's end
        while True:
            try:
                secured.unwrap()
            except ssl.SSLWantWriteError:  # the buffer is full
                if not select.select([], [secured], [], self._step)[1]:
                    self.on_wait()
                continue
            except ssl.SSLWantReadError:
                pass
            return

    @property
    def _step(self) -> float:
        return min(WAIT_SECONDS, self.patience / 3)


def _connect(address: tuple[str, int], tls: ssl.SSLContext | None) -> socket.socket:
    try:
        connected = socket.create_connection(address, timeout=CONNECT_SECONDS)
    except ConnectionRefusedError:
        raise ConnectionRefusedError(
            f"nothing listens on {address[0]}:{address[1]}; start the query first, and look "
            "whether `network_status(path)` says that it waits for connections"
        ) from None
    except OSError as error:  # no such host, no way to it, no reply
        raise ConnectionError(f"{address[0]}:{address[1]} cannot be reached: {error}") from None
    if tls:
        try:
            connected = tls.wrap_socket(
                connected, server_hostname=address[0], suppress_ragged_eofs=False
            )
        except OSError as error:
            connected.close()
            raise _insecure(address[0], error) from None
    return connected


def _insecure(host: str, error: OSError) -> ConnectionError:
    """Return why a handshake failed; what a new attempt might change is not a refusal."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"{host} shows a certificate that is not to be trusted: {error.verify_message}"
        return SenderRefusedError(text, certificate=True)
    reason = getattr(error, "reason", None) or ""
    if any(word in reason for word in _NOT_TLS):
        return SenderRefusedError(
            f"{host} does not reply in TLS: the receiver probably expects no TLS; leave out "
            "`tls` (--tls-ca), or use its TLS port"
        )
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        text = f"{host} does not accept a TLS connection here: {reason}"
        return SenderRefusedError(text, certificate=True)
    return ConnectionResetError(f"{host} did not finish the handshake; perhaps it expects no TLS")


def raise_if_refused(reply: bytes) -> None:
    """Raise `SenderRefusedError` for a refusal, and for a reply that is not `network_lines`'s."""
    text = reply.decode(errors="replace")
    if text.startswith(REFUSED) and text.endswith("\n"):
        raise SenderRefusedError(text.removeprefix(REFUSED).strip())
    if reply.startswith(_TLS_ALERT):
        raise SenderRefusedError("the receiver expects TLS; use `tls` (--tls-ca)")
    if not SAYS.startswith(text[: len(SAYS)]) or len(reply) > REPLY_BYTES:
        raise SenderRefusedError(f"no `network_lines` listens there: it says {text[:QUOTED]!r}")
