"""Values as JSON in CSV, and messages of the server's log, against random values."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from tutorial_pkg.connectors.postgres.csv_copy import csv_of


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


ZONED = datetime(2026, 2, 28, 1, 2, 3, 4, UTC)
FIELDS: list[tuple[str, pa.DataType, Any, Any]] = [
    ("yes", pa.bool_(), True, True),
    ("price", pa.decimal128(38, 18), Decimal("1.5"), "1.500000000000000000"),
    ("raw", pa.binary(), b"\0x", "\\x0078"),
    ("day", pa.date32(), date(2026, 2, 28), "2026-02-28"),
    ("at", pa.timestamp("us", "UTC"), ZONED, "2026-02-28T01:02:03.000004+00:00"),
    ("local", pa.timestamp("us"), ZONED.replace(tzinfo=None), "2026-02-28T01:02:03.000004"),
    ("time", pa.time64("us"), time(1, 2), "01:02:00"),
    ("span", pa.duration("us"), timedelta(days=-1, seconds=5), "-1 days 5.000000 seconds"),
    ("list", pa.list_(pa.float64()), [0.1, None], [0.1, None]),
    ("by_number", pa.map_(pa.int64(), pa.string()), [(1, "a\n")], {"1": "a\n"}),
    ("none", pa.string(), None, None),
]


@pytest.mark.parametrize("outer", [pa.list_, lambda kind: pa.struct({"inner": kind})])
def test_values_as_json(outer: Callable[[pa.DataType], pa.DataType]) -> None:
    """Types that JSON lacks are texts."""
    kind = outer(pa.struct({name: kind for name, kind, _, _ in FIELDS}))
    row, expected = ({field[0]: field[at] for field in FIELDS} for at in (2, 3))
    wrap = (lambda row: [row]) if pa.types.is_list(kind) else (lambda row: {"inner": row})
    batch = pa.RecordBatch.from_pydict({"it": pa.array([wrap(row), None], kind), "n": [1, 2]})
    text, null = texts_of(csv_of(batch, {"it"}))
    assert text and json.loads(text) == wrap(expected)
    assert null is None
