"""A driver made to be killed: network_lines into Parquet until the end of the process.

Arguments: the two files of a spare driver, directory of all that it writes, first port, ports.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.faults.spare_driver import wait_for_go
from tests.network_queries import network_lines, to_parquet
from tutorial_pkg import start_spark


def main(ready: str, go: str, directory: str, port: str, parallelism: str) -> None:
    spark = start_spark("network faults", **{"spark.ui.enabled": "false"})
    wait_for_go(ready, go)
    lines = network_lines(spark, Path(directory), int(port), parallelism=parallelism)
    to_parquet(lines, Path(directory)).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
