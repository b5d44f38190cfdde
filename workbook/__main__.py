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
    text = "progress: which exercises are solved; cluster: Spark's own cluster here, until Ctrl-C"
    parser.add_argument("command", choices=["progress", "cluster"], help=text)
    if parser.parse_args(arguments).command == "progress":
        print(progress())
    else:
        run_cluster(work_dir("cluster"))


if __name__ == "__main__":
    main()
