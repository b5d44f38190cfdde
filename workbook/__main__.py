"""Commands for the terminal: python -m workbook progress | demo | cluster"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code."""
    try:
        _run(_parser().parse_args(arguments))
    except ModuleNotFoundError as missing:
        print(f"The package {missing.name} is missing. Install it with: pip install '.[workbook]'")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workbook")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("progress", help="which exercises are solved, and the next one")
    demo = commands.add_parser("demo", help="log this machine's CPU with Spark and draw it")
    demo.add_argument("--seconds", type=int, default=12, help="how long to log (default: 12)")
    cluster = commands.add_parser("cluster", help="Spark's own cluster here, until Ctrl-C")
    cluster.add_argument("--workers", type=int, default=2, help="with one core each (default: 2)")
    return parser


def _run(words: argparse.Namespace) -> None:
    """Import what the command needs, and nothing else."""
    if words.command == "progress":
        from workbook.solved import progress

        print(progress())
    elif words.command == "demo":
        from workbook.demo import run_demo

        run_demo(words.seconds)
    else:
        from tutorial_pkg.core.places import work_dir
        from workbook.cluster import run_cluster

        run_cluster(work_dir("cluster"), words.workers)


if __name__ == "__main__":
    sys.exit(main())
