"""python -m workbook progress | demo | cluster | cluster-demo"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0 when it did what it should."""
    given = _parser().parse_args(arguments)
    return int(given.run(given))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workbook", description=main.__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    progress = commands.add_parser("progress", help="which exercises are solved, and the next one")
    progress.add_argument("--reset", action="store_true", help="forget what is solved")
    progress.set_defaults(run=_progress)

    demo = commands.add_parser("demo", help="log this machine's CPU with Spark and draw it")
    demo.add_argument("--seconds", type=int, default=12, help="how long to log (default: 12)")
    demo.set_defaults(run=_demo)

    started = commands.add_parser("cluster", help="Spark's own cluster here, until Ctrl-C")
    started.add_argument("--workers", type=int, default=2, help="with one core each (default: 2)")
    started.set_defaults(run=_cluster)

    cluster = commands.add_parser(
        "cluster-demo", help="two queries on a cluster that loses a worker"
    )
    cluster.add_argument("--lines", type=int, default=60_000, help="how many for each query")
    cluster.add_argument("--folder", type=Path, help="where to write (default: .work/cluster)")
    cluster.set_defaults(run=_cluster_demo)
    return parser


def _progress(given: argparse.Namespace) -> int:
    from workbook.solved import progress, reset

    if given.reset:
        print(f"Forgotten: {reset()} solved exercises.")
    print(progress())
    return 0


def _demo(given: argparse.Namespace) -> int:
    from workbook.demo import run_demo

    run_demo(given.seconds)
    return 0


def _cluster(given: argparse.Namespace) -> int:
    from tutorial_pkg.core.places import work_dir
    from workbook.cluster import run_cluster

    run_cluster(work_dir("cluster"), given.workers)
    return 0


def _cluster_demo(given: argparse.Namespace) -> int:
    from workbook.cluster_demo import run_cluster_demo

    account = run_cluster_demo(given.lines, given.folder)
    print(account)
    return 0 if account.exact else 1


if __name__ == "__main__":
    sys.exit(main())
