"""Several sources and a sink under one name."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkNotImplementedError

from tests.stream_runs import NUMBER
from tutorial_pkg.builder import Format, SinkBuilder, SourceBuilder, choice


def numbers(number: int) -> Any:
    builder = SourceBuilder.batch("numbers", "number LONG", lambda context: None)
    builder.fill(lambda state, buffer: [buffer.add(number), buffer.close()])
    return builder.option("sign", choice("plus", "minus"), "plus", "which").build()


PLUS, MINUS = numbers(1), numbers(-1)
SINK = SinkBuilder.stream("numbers", lambda context: None).receive(lambda state, row: None).build()


class Both(Format):
    format, install = "numbers", "pip install numbers"

    def source(self) -> Any:
        return MINUS if self.options.get("sign") == "minus" else PLUS

    def sink(self) -> Any:
        return SINK


class ReadOnly(Both):
    sink = Format.sink


def read(format_class: Any, **options: str) -> list[int]:
    reader = format_class(options).reader(NUMBER)
    [part] = reader.partitions()
    return [n for batch in reader.read(part) for n in batch.column(0).to_pylist()]


def test_options_choose_the_source() -> None:
    assert read(Both) == [1]
    assert read(cloudpickle.loads(cloudpickle.dumps(Both)), sign="minus") == [-1]
    assert Both({}).schema() == "number LONG"
    assert Both({}).streamWriter(NUMBER, False)
    with pytest.raises(ValueError, match="option `sign`"):
        Both({"sign": "x"}).schema()


def test_missing_sink_is_named() -> None:
    with pytest.raises(PySparkNotImplementedError, match="streamWriter"):
        ReadOnly({}).streamWriter(NUMBER, False)
