"""A driver on a cluster, made to be killed: lines from a port become a CPU log, for ever.

Arguments: the cluster's address, the directory of all that it writes, the port.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.faults.network_to_log_driver import run_for_ever
from tutorial_pkg import start_spark
from tutorial_pkg.processes.query_process import end_with_parent


def main(master: str, directory: str, port: str) -> None:
    settings = {
        "spark.master": master,
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
    }
    spark = start_spark("kills", **settings)
    run_for_ever(spark, Path(directory), int(port))


if __name__ == "__main__":
    end_with_parent()
    main(*sys.argv[1:])
