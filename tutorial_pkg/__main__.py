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
from contextlib import ExitStack, nullcontext
from pathlib import Path

_TLS_FILES = {
    "ca": "send with TLS, to a receiver whose certificate this authority has issued",
    "certificate": "this sender's certificate, if the receiver asks for one",
    "key": "its private key, if that is in another file",
}
_LOG_FORMAT = "%(asctime)s %(message)s"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. The exit code is 0 if it did what it should."""
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if options.run is None:
        parser.print_help()
        return 0
    if rest and options.run is not _receive:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    try:
        return int(options.run(options))
    except ImportError as error:  # the package alone, without the extra that a command needs
        print(f"{options.command}: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    from tutorial_pkg import __version__

    parser = argparse.ArgumentParser(
        prog="python -m tutorial_pkg", description="Streaming sources and sinks for PySpark."
    )
    parser.add_argument("--version", action="version", version=f"tutorial_pkg {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="COMMAND", dest="command")

    doctor = commands.add_parser("doctor", help="check this machine, one line for each thing")
    doctor.add_argument("--quick", action="store_true", help="leave out the streaming query")
    doctor.set_defaults(run=_doctor)

    prepare = commands.add_parser("prepare", help="find or install Java; make Spark start faster")
    prepare.set_defaults(run=_prepare)

    send = commands.add_parser("send", help="send a file's lines over TCP, as `nc` would")
    send.add_argument("file", nargs="?", metavar="FILE", help="a file, or - for standard input")
    send.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    send.add_argument("--port", type=int, default=11000, help="default: %(default)s")
    send.add_argument("--rate", type=float, help="lines per second (default: as fast as possible)")
    send.add_argument("--name", help="continue where the sender of this name stopped: exactly once")
    send.add_argument("--instance", help="take over a name that another machine has used")
    send.add_argument("--follow", metavar="PATH", help="send what grows: a file, folder or glob")
    for file, meaning in _TLS_FILES.items():
        send.add_argument(f"--tls-{file}", type=Path, metavar="PEM", help=meaning)
    send.set_defaults(run=_send)

    receive = commands.add_parser(
        "receive", help="keep ports open and write the log that queries read", add_help=False
    )
    receive.set_defaults(run=_receive)
    return parser


# Each command imports what it needs when it runs, so that `doctor` works on a machine where Spark
# cannot even be imported.


def _doctor(options: argparse.Namespace) -> int:
    from tutorial_pkg.session.doctor import examine

    return examine(quick=options.quick)


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


def _send(options: argparse.Namespace) -> int:
    from tutorial_pkg.connectors.network_lines.follow import follow
    from tutorial_pkg.connectors.network_lines.forward import send_named
    from tutorial_pkg.connectors.network_lines.sender import send_lines
    from tutorial_pkg.connectors.network_lines.tls import client_tls

    def tls() -> ssl.SSLContext | None:
        files = options.tls_ca, options.tls_certificate, options.tls_key
        return client_tls(*files) if options.tls_ca else None

    to, rate, name = (options.host, options.port), options.rate, options.name
    try:
        _check(options)
        context = tls()
        if options.follow:
            logging.basicConfig(level=logging.INFO, format=_LOG_FORMAT)
            follow(options.follow, *to, name, tls, _stop_by_signal(), options.instance)
            return 0
        if name:
            sent = send_named(options.file, *to, name, rate, context, options.instance)
        else:
            is_input = options.file == "-"
            with nullcontext(sys.stdin.buffer) if is_input else open(options.file, "rb") as lines:
                sent = send_lines(*to, lines, rate, context)
    except (OSError, ValueError) as error:
        print(f"send: {error}", file=sys.stderr)
        return 1
    print(f"{sent:,} lines sent to {options.host}:{options.port}")
    return 0


def _check(options: argparse.Namespace) -> None:
    """Raise `ValueError` for arguments of `send` that do not go together."""
    if (options.file is None) == (options.follow is None):
        raise ValueError("give one of FILE and --follow PATH")
    if options.follow and not options.name:
        raise ValueError("--follow needs a --name, by which the receiver knows what it has")
    if options.instance and not options.name:
        raise ValueError("--instance needs the --name that another machine has used")
    if options.follow and options.rate is not None:
        raise ValueError("--rate is for a FILE")
    if options.rate is not None and not options.rate > 0:
        raise ValueError("--rate is the number of lines per second, more than 0")
    if options.name and options.file == "-":
        raise ValueError("a sender with a --name needs a FILE, which it can read again")
    if (options.tls_certificate or options.tls_key) and not options.tls_ca:
        raise ValueError("--tls-ca is missing: the authority of the receiver's certificate")


def _receive(options: argparse.Namespace) -> int:
    from tutorial_pkg.connectors.network_lines.receiver import RECEIVER_OPTIONS, receive
    from tutorial_pkg.durable_log.lock import LogLockedError

    parser = argparse.ArgumentParser(prog="python -m tutorial_pkg receive")
    parser.add_argument("path", type=Path, help="the folder of the log")
    parser.add_argument("--metrics", type=int, metavar="PORT", help="for Prometheus, on loopback")
    for option in RECEIVER_OPTIONS:  # as in a query, but with dashes
        name = re.sub("([A-Z])", r"-\1", option.name).lower()
        default = "" if option.default is None else f"; default {option.default}"
        meaning = f"{option.meaning} ({option.takes}{default})".replace("%", "%%")
        parser.add_argument(f"--{name}", dest=option.name, metavar="VALUE", help=meaning)
    values = vars(parser.parse_args(options.rest))
    path, metrics = values.pop("path"), values.pop("metrics")
    logging.basicConfig(level=logging.INFO, format=_LOG_FORMAT)
    stopping = _stop_by_signal()
    try:
        with ExitStack() as opened:
            if metrics is not None:
                from tutorial_pkg.connectors.network_lines.metrics import ReceiverMetrics
                from tutorial_pkg.observe.prometheus import MetricsServer

                opened.callback(MetricsServer(ReceiverMetrics(path), metrics).close)
            receive(path, {n: text for n, text in values.items() if text is not None}, stopping)
    except (OSError, ValueError, LogLockedError) as error:
        print(f"receive: {error}", file=sys.stderr)
        return 1
    return 0


def _stop_by_signal() -> threading.Event:
    """Return an event that Ctrl-C and SIGTERM set."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    return stopping


if __name__ == "__main__":
    sys.exit(main())
