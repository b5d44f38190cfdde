"""python -m tutorial_pkg doctor | prepare | send | demo | examine | cluster | cluster-demo"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0 when it did what it should."""
    given = _parser().parse_args(arguments)
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
    send.add_argument("file", type=Path)
    send.add_argument("--host", default="127.0.0.1")
    send.add_argument("--port", type=int, default=11000)
    send.add_argument("--rate", type=float, help="lines per second (default: as fast as it goes)")
    send.add_argument("--connections", type=int, default=1)
    send.set_defaults(run=_send)

    demo = commands.add_parser("demo", help="log this machine's CPU with Spark and draw it")
    demo.add_argument("--seconds", type=int, default=12, help="how long to log (default: 12)")
    demo.set_defaults(run=_demo)

    examine = commands.add_parser("examine", help="does a source or sink keep its promises?")
    examine.add_argument("what", metavar="module:function", help="describes a source or sink")
    examine.add_argument("--without", nargs="*", default=(), metavar="PROMISE", help="not to try")
    examine.add_argument("--only", nargs="*", default=(), metavar="PROMISE", help="nothing else")
    examine.set_defaults(run=_examine)

    started = commands.add_parser("cluster", help="Spark's own cluster here, until Ctrl-C")
    started.add_argument("--workers", type=int, default=2, help="of one core each (default: 2)")
    started.set_defaults(run=_cluster)

    cluster = commands.add_parser(
        "cluster-demo", help="two queries on a cluster that loses a worker"
    )
    cluster.add_argument("--lines", type=int, default=60_000, help="for each query")
    cluster.add_argument("--folder", type=Path, help="for what it writes (default: .work/cluster)")
    cluster.set_defaults(run=_cluster_demo)
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
    from tutorial_pkg.connectors.network_lines.sender import send_file

    try:
        sent = send_file(given.file, given.host, given.port, given.rate, given.connections)
    except (OSError, ValueError) as error:
        print(f"send: {error}", file=sys.stderr)
        return 1
    print(f"{sent:,} lines sent to {given.host}:{given.port}")
    return 0


def _demo(given: argparse.Namespace) -> int:
    from tutorial_pkg.workbook.demo import run_demo

    run_demo(given.seconds)
    return 0


def _examine(given: argparse.Namespace) -> int:
    from tutorial_pkg.session.start import start_spark, stop_spark
    from tutorial_pkg.testing.command import describe_named, report_on

    try:
        describe = describe_named(given.what)
    except ValueError as error:
        print(f"examine: {error}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leaves nothing behind, either
    spark = start_spark("examine")
    try:
        return report_on(describe, spark, given.without, given.only)
    finally:
        stop_spark(spark)


def _cluster(given: argparse.Namespace) -> int:
    from tutorial_pkg.core.places import work_dir
    from tutorial_pkg.processes.cluster import run_cluster

    run_cluster(work_dir("cluster"), given.workers)
    return 0


def _cluster_demo(given: argparse.Namespace) -> int:
    from tutorial_pkg.workbook.cluster_demo import run_cluster_demo

    account = run_cluster_demo(given.lines, given.folder)
    print(account)
    return 0 if account.exact else 1


if __name__ == "__main__":
    sys.exit(main())
