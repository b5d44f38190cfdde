"""Commands for the terminal: python -m workbook progress | cluster"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tutorial_pkg.core.places import work_dir
from workbook.cluster import run_cluster
from workbook.solved import progress


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m workbook")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("progress", help="which exercises are solved, and the next one")
    commands.add_parser("cluster", help="Spark's own cluster here, until Ctrl-C")
    if parser.parse_args(arguments).command == "progress":
        print(progress())
    else:
        run_cluster(work_dir("cluster"))


if __name__ == "__main__":
    main()
