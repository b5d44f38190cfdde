"""Streaming sources and sinks for PySpark: the finished connectors of the workbook."""

from tutorial_pkg.core.cpu_monitor import CpuMonitor
from tutorial_pkg.session import data_sources, last_error, register, start_spark
from tutorial_pkg.sinks.cpu_log import CpuLogDataSource, parse_cpu_log
from tutorial_pkg.sources.item_stream import item_stream

__all__ = [
    "CpuLogDataSource",
    "CpuMonitor",
    "item_stream",
    "last_error",
    "parse_cpu_log",
    "register",
    "start_spark",
]
