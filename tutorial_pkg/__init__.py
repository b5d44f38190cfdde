"""Streaming sources and sinks for PySpark. (work in progress)"""

from tutorial_pkg.core.places import work_dir
from tutorial_pkg.session import register, start_spark


def data_sources():
    import importlib

    found = []
    for module, name in (
        ("sinks.cpu_log", "CpuLogDataSource"),
        ("sources.file_lines", "FileLinesDataSource"),
        ("sources.network_lines", "NetworkLinesDataSource"),
    ):
        try:
            found.append(getattr(importlib.import_module(f"tutorial_pkg.{module}"), name))
        except ModuleNotFoundError:
            pass
    return found
