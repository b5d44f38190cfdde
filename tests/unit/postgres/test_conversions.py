"""Values as JSON in CSV, and messages of the server's log, against random values."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import strategies as st
from pyspark.sql import types as spark
from pyspark.sql.types import ArrayType, BooleanType, DataType, MapType, StringType, StructType

from tests.properties import EXAMPLES, KEYS, KINDS, holds, same, structs, typed
from tutorial_pkg.builder import RowPacker
from tutorial_pkg.connectors.postgres.csv_copy import csv_of
from tutorial_pkg.connectors.postgres.pgoutput import Changes, Decoder


def texts_of(text: memoryview) -> list[bytes | None]:
    """Parse like COPY: an empty field without quotes is null."""
    convert = pa.csv.ConvertOptions(
        column_types={"f0": pa.binary()},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    read = pa.csv.ReadOptions(autogenerate_column_names=True)
    parse = pa.csv.ParseOptions(newlines_in_values=True)
    table = pa.csv.read_csv(pa.py_buffer(text), read, parse, convert)
    texts: list[bytes | None] = table.column(0).to_pylist()
    return texts


KEYED = st.builds(MapType, st.sampled_from([*KEYS, BooleanType()]), KINDS)
NESTED = st.builds(ArrayType, KINDS) | KEYED | structs(KINDS)


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()])
def test_extreme_year_is_an_error(kind: pa.DataType) -> None:
    """Milliseconds that are read as seconds make such years. Arrow writes 3392 for 200,000."""

    def of(year: int) -> pa.RecordBatch:
        unit = "D" if kind == pa.date32() else "us"
        number = int(np.datetime64(f"{year}-06-01", unit).astype(np.int64))
        return pa.RecordBatch.from_pydict({"at": pa.array([None, number], kind)})

    assert bytes(csv_of(of(32_767))).startswith(b"\n32767-06-01")
    for year in (200_000, 32_768, -32_768):
        with pytest.raises(ValueError, match="column `at`"):
            csv_of(of(year))


@EXAMPLES
def test_values_as_json(examples: int) -> None:
    """Lists, maps and structs of all types; types that JSON lacks are texts."""

    def check(column: tuple[DataType, list[Any]]) -> None:
        kind, values = column
        packer = RowPacker(StructType().add("the column", kind).add("beside", spark.LongType()))
        try:
            text = csv_of(packer.pack([(value, 1) for value in values]), {"the column"})
        except ValueError as error:
            assert "`the column`" in str(error) and not is_finite(values)
        else:
            texts = [item and json.loads(item) for item in texts_of(text)]
            assert is_finite(values)
            assert same([from_json(kind, item) for item in texts], values)

    holds(check, examples, typed(NESTED))


def is_finite(value: Any) -> bool:
    """Return whether the value contains neither NaN nor infinity."""
    if isinstance(value, dict):
        return is_finite(list(value.values()))
    if isinstance(value, list):
        return all(map(is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def from_json(kind: DataType, value: Any) -> Any:
    """Convert back to the value that was written."""
    if value is None:
        return None
    if isinstance(kind, ArrayType):
        return [from_json(kind.elementType, item) for item in value]
    if isinstance(kind, StructType):
        return {field.name: from_json(field.dataType, value[field.name]) for field in kind}
    if isinstance(kind, MapType):
        keys = [key if key_is_text(kind.keyType) else json.loads(key) for key in value]
        return {
            from_json(kind.keyType, key): from_json(kind.valueType, item)
            for key, item in zip(keys, value.values(), strict=True)
        }
    return FROM_TEXT[type(kind)](value) if type(kind) in FROM_TEXT else value


def key_is_text(kind: DataType) -> bool:
    return type(kind) in FROM_TEXT or isinstance(kind, StringType)


def span(text: str) -> timedelta:
    found = re.fullmatch(r"(-?\d+) days (\d+)\.(\d{6}) seconds", text)
    assert found
    days, seconds, micros = map(int, found.groups())
    return timedelta(days, seconds, micros)


FROM_TEXT: dict[type[DataType], Callable[[str], Any]] = {
    spark.BinaryType: lambda text: bytes.fromhex(text.removeprefix("\\x")),
    spark.DecimalType: Decimal,
    spark.DateType: date.fromisoformat,
    spark.TimestampType: datetime.fromisoformat,
    spark.TimestampNTZType: datetime.fromisoformat,
    spark.TimeType: time.fromisoformat,
    spark.DayTimeIntervalType: span,
}


VALUES = st.lists(st.none() | st.binary(max_size=9), min_size=1, max_size=4)
CHANGES = st.lists(st.tuples(st.integers(0, 2**63 - 1), st.lists(VALUES, max_size=3)), max_size=3)


@EXAMPLES
def test_decoder_returns_encoded_values(examples: int) -> None:
    def check(transactions: list[tuple[int, list[list[bytes | None]]]]) -> None:
        messages: list[bytes] = []
        for position, rows in transactions:
            messages.append(b"B" + struct.pack(">QqI", position, 5, 7))
            for row in rows:
                messages += [relation(len(row)), inserted(row)]
            messages.append(b"C" + bytes(25))
        decoded = [
            (int(position), list(row))
            for changes in (Decoder(42).changes(messages) if messages else ())
            for position, row in zip(changes.positions, after(changes), strict=True)
        ]
        assert decoded == [(at, row) for at, rows in transactions for row in rows]

    holds(check, examples, CHANGES)


def after(changes: Changes) -> Iterator[tuple[bytes | None, ...]]:
    return zip(*map(changes.texts, changes.tuples()[1]), strict=True)


def relation(columns: int) -> bytes:
    names = (f"ä{number}\0".encode() for number in range(columns))
    item = b"".join(b"\0" + name + struct.pack(">Ii", 25, -1) for name in names)
    return b"R" + struct.pack(">I", 42) + b"public\0t\0d" + struct.pack(">H", columns) + item


def inserted(row: list[bytes | None]) -> bytes:
    values = b"".join(
        b"n" if value is None else b"t" + struct.pack(">I", len(value)) + value for value in row
    )
    return b"I" + struct.pack(">I", 42) + b"N" + struct.pack(">H", len(row)) + values
