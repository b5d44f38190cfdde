"""Streaming sources and sinks for PySpark: the finished connectors of the workbook."""

from tutorial_pkg.core.cpu_monitor import CpuMonitor
from tutorial_pkg.core.network_status import network_status
from tutorial_pkg.core.sender import send_lines
from tutorial_pkg.session import last_error, register, start_spark
from tutorial_pkg.sinks.cpu_log import CpuLogDataSource, parse_cpu_log
from tutorial_pkg.sources.file_lines import FileLinesDataSource
from tutorial_pkg.sources.item_stream import item_stream
from tutorial_pkg.sources.network_lines import NetworkLinesDataSource

__all__ = [
    "CpuLogDataSource",
    "CpuMonitor",
    "FileLinesDataSource",
    "NetworkLinesDataSource",
    "item_stream",
    "last_error",
    "network_status",
    "parse_cpu_log",
    "register",
    "send_lines",
    "start_spark",
]
