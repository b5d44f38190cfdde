"""python -m tutorial_pkg doctor | prepare | send | receive"""

from __future__ import annotations

import argparse
import logging
import re
import signal
import ssl
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tutorial_pkg.observe.prometheus import MetricsServer

_TLS_FILES = {
    "ca": "send with TLS, to a receiver whose certificate this authority has issued",
    "certificate": "this sender's certificate, if the receiver asks for one",
    "key": "its private key, if that is in another file",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0 when it did what it should."""
    parser = _parser()
    given, rest = parser.parse_known_args(arguments)
    if rest and given.run is not _receive:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    given.rest = rest
    return int(given.run(given))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tutorial_pkg", description=main.__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    doctor = commands.add_parser("doctor", help="check this machine, one line for each thing")
    doctor.add_argument("--quick", action="store_true", help="leave out the streaming query")
    doctor.set_defaults(run=_doctor)

    prepare = commands.add_parser("prepare", help="find or install Java; make Spark start faster")
    prepare.set_defaults(run=_prepare)

    send = commands.add_parser("send", help="send a file's lines over TCP, as `nc` would")
    send.add_argument("file", type=Path, nargs="?")
    send.add_argument("--host", default="127.0.0.1")
    send.add_argument("--port", type=int, default=11000)
    send.add_argument("--rate", type=float, help="lines per second (default: as fast as it goes)")
    send.add_argument("--connections", type=int, default=1)
    send.add_argument("--name", help="go on where the sender of this name stopped: exactly once")
    send.add_argument("--follow", metavar="PATH", help="send what grows: a file, folder or glob")
    for file, what in _TLS_FILES.items():
        send.add_argument(f"--tls-{file}", type=Path, metavar="PEM", help=what)
    send.set_defaults(run=_send)

    receive = commands.add_parser(
        "receive", help="keep ports open and write the log that queries read", add_help=False
    )
    receive.set_defaults(run=_receive)

    return parser


# Each command imports what it needs when it runs, so that `doctor` can speak
# about a machine on which Spark cannot even be imported.


def _doctor(given: argparse.Namespace) -> int:
    from tutorial_pkg.session.doctor import examine

    return examine(quick=given.quick)


def _prepare(_: argparse.Namespace) -> int:
    from tutorial_pkg.session.class_archive import make_archive
    from tutorial_pkg.session.java import JavaNotFoundError, install_java

    try:
        install_java()
    except JavaNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    make_archive()
    return 0


def _send(given: argparse.Namespace) -> int:
    try:
        if (given.file is None) == (given.follow is None):
            raise ValueError("give one of FILE and --follow PATH")
        if given.follow:
            return _follow(given)
        sent = _send_file(given)
    except (OSError, ValueError) as error:
        print(f"send: {error}", file=sys.stderr)
        return 1
    print(f"{sent:,} lines sent to {given.host}:{given.port}")
    return 0


def _send_file(given: argparse.Namespace) -> int:
    from tutorial_pkg.connectors.network_lines.sender import send_file

    where = given.file, given.host, given.port
    if not given.name:
        return send_file(*where, given.rate, given.connections, _client_tls(given))
    from tutorial_pkg.connectors.network_lines.forward import send_named

    if given.connections != 1:
        raise ValueError("a sender with a --name has one connection: it keeps the lines in order")
    return send_named(*where, given.name, given.rate, _client_tls(given))


def _follow(given: argparse.Namespace) -> int:
    from tutorial_pkg.connectors.network_lines.forward import follow

    if not given.name:
        raise ValueError("--follow needs a --name, by which the receiver knows what it has")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    tls = partial(_client_tls, given)
    follow(given.follow, given.host, given.port, given.name, tls, _told_to_stop())
    return 0


def _receive(started: argparse.Namespace) -> int:
    from tutorial_pkg.connectors.network_lines.receiver import RECEIVER_OPTIONS, receive
    from tutorial_pkg.durable_log.lock import LogLockedError

    parser = argparse.ArgumentParser(prog="python -m tutorial_pkg receive")
    parser.add_argument("path", type=Path, help="the folder of the log")
    parser.add_argument("--metrics", type=int, metavar="PORT", help="for Prometheus, on loopback")
    for option in RECEIVER_OPTIONS:  # as in a query, but with dashes
        words = re.sub("([A-Z])", r"-\1", option.name).lower()
        parser.add_argument(f"--{words}", dest=option.name, metavar="VALUE", help=option.meaning)
    given = vars(parser.parse_args(started.rest))
    path, metrics = given.pop("path"), given.pop("metrics")
    options = {name: value for name, value in given.items() if value is not None}
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    stopping = _told_to_stop()
    try:
        with ExitStack() as opened:
            if metrics is not None:
                opened.callback(_served_metrics(path, metrics).close)
            receive(path, options, stopping)
    except (OSError, ValueError, LogLockedError) as error:
        print(f"receive: {error}", file=sys.stderr)
        return 1
    return 0


def _served_metrics(path: Path, port: int) -> MetricsServer:
    from tutorial_pkg.connectors.network_lines.metrics import ReceiverMetrics
    from tutorial_pkg.observe.prometheus import MetricsServer

    return MetricsServer(ReceiverMetrics(path), port)


def _client_tls(given: argparse.Namespace) -> ssl.SSLContext | None:
    from tutorial_pkg.connectors.network_lines.tls import client_tls

    if given.tls_ca:
        return client_tls(given.tls_ca, given.tls_certificate, given.tls_key)
    if given.tls_certificate or given.tls_key:
        raise ValueError("--tls-ca is missing: the authority that the receiver's certificate is of")
    return None


def _told_to_stop() -> threading.Event:
    """Set by Ctrl-C and SIGTERM."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    return stopping


if __name__ == "__main__":
    sys.exit(main())
