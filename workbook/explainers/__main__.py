"""Run the queries of both explainers, and store what came out: some minutes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tutorial_pkg import start_spark
from workbook.explainers import crash, watermark
from workbook.explainers.widget import store
from workbook.senders import free_ports

with tempfile.TemporaryDirectory() as folder:
    small: dict[str, Any] = {"spark.sql.shuffle.partitions": "1"}
    spark = start_spark("explainers", **small)
    store(watermark.FILE, watermark.grid(spark, Path(folder, "watermark")))
    store(crash.FILE, crash.grid(spark, Path(folder, "crash"), free_ports(crash.PORTS)))
    spark.stop()
