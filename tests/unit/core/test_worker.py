"""Stream readers ignore Ctrl-C where Spark asks them what is new, and nowhere else."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import LongType, StructType

from tutorial_pkg import SourceBuilder
from tutorial_pkg.connectors.file_lines import FileLinesDataSource
from tutorial_pkg.connectors.network_lines import NetworkLinesDataSource
from tutorial_pkg.core.worker import SOURCE_RUNNER

NUMBER = StructType().add("number", LongType())
NumbersDataSource = SourceBuilder.replayable(
    "numbers",
    NUMBER,
    look=lambda context: {"all": (0, 3)},
    read=lambda context, split, start, end: range(start, end),
).build()


@pytest.fixture
def interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("format", [FileLinesDataSource, NetworkLinesDataSource, NumbersDataSource])
def test_stream_readers_ignore_ctrl_c(
    format: type[DataSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = format({"path": str(tmp_path)} if format is not NumbersDataSource else {})
    source.streamReader(NUMBER)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec(SOURCE_RUNNER, None))
    source.streamReader(NUMBER)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
