"""Streaming sources and sinks for PySpark: finished connectors, and a builder for your own.

    from tutorial_pkg import start_spark

    spark = start_spark()
    lines = spark.readStream.format("network_lines").option("port", 11000).load()

`help(tutorial_pkg.SourceBuilder)` shows how to write a source, `help(tutorial_pkg.SinkBuilder)` a
sink. Each format has a class (`help(tutorial_pkg.FileLinesDataSource)`) and a page in docs/formats.
"""

from typing import TYPE_CHECKING

from tutorial_pkg.core.imports import lazy_names

if TYPE_CHECKING:  # what editors and type checkers see
    from tutorial_pkg.builder import SinkBuilder, SourceBuilder, builder_status
    from tutorial_pkg.connectors.cpu_log import CpuLogDataSource, CpuMonitor, parse_cpu_log
    from tutorial_pkg.connectors.delta import DeltaDataSource
    from tutorial_pkg.connectors.file_lines import FileLinesDataSource
    from tutorial_pkg.connectors.item_stream import item_stream
    from tutorial_pkg.connectors.kafka import KafkaDataSource
    from tutorial_pkg.connectors.nats import NatsDataSource
    from tutorial_pkg.connectors.network_lines import (
        NetworkLinesDataSource,
        network_status,
        send_lines,
    )
    from tutorial_pkg.connectors.objects import ObjectsDataSource
    from tutorial_pkg.connectors.postgres import PostgresDataSource
    from tutorial_pkg.core.errors import last_error
    from tutorial_pkg.observe import (
        BatchMetrics,
        LogRowsSink,
        Peeked,
        QueryMetrics,
        QueryRecord,
        peek,
    )
    from tutorial_pkg.session.graceful import run_until_signal
    from tutorial_pkg.session.start import register, start_spark, stop_spark

__version__ = "0.3.0"

_NAMES = {
    "builder": "SinkBuilder SourceBuilder builder_status",
    "connectors.cpu_log": "CpuLogDataSource CpuMonitor parse_cpu_log",
    "connectors.delta": "DeltaDataSource",
    "connectors.file_lines": "FileLinesDataSource",
    "connectors.item_stream": "item_stream",
    "connectors.kafka": "KafkaDataSource",
    "connectors.nats": "NatsDataSource",
    "connectors.network_lines": "NetworkLinesDataSource network_status send_lines",
    "connectors.objects": "ObjectsDataSource",
    "connectors.postgres": "PostgresDataSource",
    "core.errors": "last_error",
    "observe": "BatchMetrics LogRowsSink Peeked QueryMetrics QueryRecord peek",
    "session.graceful": "run_until_signal",
    "session.start": "register start_spark stop_spark",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
_SUBMODULES = ("builder", "connectors", "observe", "session", "state")  # for `help(...)`

__all__ = sorted(_MODULES)
__getattr__ = lazy_names(__name__, {**_MODULES, **{name: name for name in _SUBMODULES}})


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
