"""Streaming sources and sinks for PySpark: the finished connectors of the workbook."""

from tutorial_pkg.builder import SinkBuilder, SourceBuilder, builder_status
from tutorial_pkg.connectors.cpu_log import CpuLogDataSource, CpuMonitor, parse_cpu_log
from tutorial_pkg.connectors.file_lines import FileLinesDataSource
from tutorial_pkg.connectors.item_stream import item_stream
from tutorial_pkg.connectors.network_lines import (
    NetworkLinesDataSource,
    network_status,
    send_lines,
)
from tutorial_pkg.connectors.postgres import PostgresDataSource
from tutorial_pkg.errors import last_error
from tutorial_pkg.session import register, start_spark

__all__ = [
    "CpuLogDataSource",
    "CpuMonitor",
    "FileLinesDataSource",
    "NetworkLinesDataSource",
    "PostgresDataSource",
    "SinkBuilder",
    "SourceBuilder",
    "builder_status",
    "item_stream",
    "last_error",
    "network_status",
    "parse_cpu_log",
    "register",
    "send_lines",
    "start_spark",
]
