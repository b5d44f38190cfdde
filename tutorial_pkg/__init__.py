"""Streaming sources and sinks for PySpark: the finished connectors of the workbook."""

from tutorial_pkg.builder import SinkBuilder, SourceBuilder, builder_status
from tutorial_pkg.connectors.cpu_log import CpuLogDataSource, CpuMonitor, parse_cpu_log
from tutorial_pkg.connectors.file_lines import FileLinesDataSource
from tutorial_pkg.connectors.item_stream import item_stream
from tutorial_pkg.connectors.kafka import KafkaDataSource
from tutorial_pkg.connectors.nats import NatsDataSource
from tutorial_pkg.connectors.network_lines import (
    NetworkLinesDataSource,
    network_status,
    send_lines,
)
from tutorial_pkg.connectors.postgres import PostgresDataSource
from tutorial_pkg.errors import last_error
from tutorial_pkg.graceful import run_until_signal
from tutorial_pkg.observe import (
    BatchMetrics,
    LogRowsSink,
    Peeked,
    QueryMetrics,
    QueryRecord,
    peek,
)
from tutorial_pkg.session import register, start_spark

__all__ = [
    "BatchMetrics",
    "CpuLogDataSource",
    "CpuMonitor",
    "FileLinesDataSource",
    "KafkaDataSource",
    "LogRowsSink",
    "NatsDataSource",
    "NetworkLinesDataSource",
    "Peeked",
    "PostgresDataSource",
    "QueryMetrics",
    "QueryRecord",
    "SinkBuilder",
    "SourceBuilder",
    "builder_status",
    "item_stream",
    "last_error",
    "network_status",
    "parse_cpu_log",
    "peek",
    "register",
    "run_until_signal",
    "send_lines",
    "start_spark",
]
