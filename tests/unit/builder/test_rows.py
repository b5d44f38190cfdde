"""Rows in Python's types, and record batches, packed for Spark."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
    VariantVal,
)

from tests.stream_runs import NUMBER
from tests.values import NESTED, VALUES, comparable
from tutorial_pkg.builder.frames import batches_of, encode
from tutorial_pkg.builder.rows import Buffer, RowPacker

PAIR = StructType().add("number", LongType()).add("text", StringType())
TWICE = StructType().add("a", LongType()).add("a", LongType())
AT = datetime(2026, 7, 1, 12, tzinfo=UTC)
NAIVE = datetime(2026, 7, 1, 12)


@dataclass
class Pair:
    number: int
    text: str | None


class Turned(NamedTuple):
    """Has the names of columns, in another order."""

    text: str
    number: int


def packed(schema: StructType, *rows: Any) -> list[dict[str, Any]]:
    return RowPacker(schema).pack(rows).to_pylist()


# ---- Rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        *((1, "a"), Row(1, "a"), Row(text="a", number=1), {"text": "a", "number": 1}),
        *(Pair(1, "a"), Turned("a", 1)),
    ],
)
def test_row_is_a_tuple_row_dict_or_dataclass(row: Any) -> None:
    expected = [{"number": 1, "text": "a"}, {"number": None, "text": "b"}]
    assert packed(PAIR, row, {"text": "b"}) == expected


def test_with_one_column_a_row_is_its_value() -> None:
    assert packed(NUMBER, 1, (2,), None, {"number": 4}) == [{"number": n} for n in (1, 2, None, 4)]
    listed = StructType().add("list", ArrayType(LongType()))
    assert packed(listed, [1, 2], [], None) == [{"list": [1, 2]}, {"list": []}, {"list": None}]


@pytest.mark.parametrize(
    ("schema", "row"),
    [
        *((PAIR, row) for row in [(1,), [1, "a"], "a", {"nummer": 1}]),
        (PAIR, Row("number", "number")(1, 2)),  # as after a join
        (StructType().add("inner", PAIR), (Row("text", "text")("a", "b"),)),
        (TWICE, {"a": 1}),
    ],
)
def test_row_that_does_not_fit_is_refused(schema: StructType, row: Any) -> None:
    with pytest.raises(ValueError, match=r"expected a tuple|expected the columns|occur twice"):
        packed(schema, row)


def test_equal_column_names_are_filled_in_order() -> None:
    assert RowPacker(TWICE).pack([(1, 2)]).columns[1].to_pylist() == [2]


# ---- Values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (LongType(), np.int32(7), 7),
        (DoubleType(), 1, 1.0),
        (TimestampType(), AT.astimezone().replace(tzinfo=None), AT),  # of this process's zone
        (MapType(StringType(), PAIR), {"a": (1, None)}, [("a", {"number": 1, "text": None})]),
        (ArrayType(PAIR), [Row(text="a", number=1), None], [{"number": 1, "text": "a"}, None]),
        (VariantType(), VariantVal(b"v", b"m"), {"value": b"v", "metadata": b"m"}),
    ],
)
def test_value_is_converted(kind: Any, value: Any, expected: Any) -> None:
    schema = StructType().add("value", kind)
    assert packed(schema, (value,), (None,)) == [{"value": expected}, {"value": None}]


def test_extremes_are_read_back_from_a_frame() -> None:
    schema = StructType()
    for kind in (kinds := {**VALUES, **NESTED}):
        schema.add(kind.simpleString(), kind)
    given = [*zip(*kinds.values(), strict=True), (None,) * len(kinds)]
    [logged] = batches_of(encode([RowPacker(schema).pack(given)], "{}"))
    read = [list(row.values()) for row in logged.to_pylist(maps_as_pydicts="strict")]
    assert comparable(read) == comparable(given)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (LongType(), 1.5),
        (LongType(), True),
        (LongType(), "1"),
        (DoubleType(), "1.5"),
        (FloatType(), 1e300),
        (DecimalType(5, 2), True),
        (StringType(), 1),
        (TimestampType(), 1.5e9),
        (TimestampType(), date(2026, 11, 22)),
        (TimestampNTZType(), AT),
        (DateType(), NAIVE),
        (TimestampType(), pd.Timestamp("2026-07-01 00:00:00.000000001Z")),
        (TimestampNTZType(), pd.Timestamp("2026-07-01 00:00:00.000000001")),
        (ArrayType(DayTimeIntervalType()), [pd.Timedelta(1)]),
        (VariantType(), "text"),
        (ArrayType(LongType()), [1, 1.5]),
        (ArrayType(StringType()), "ab"),
        (MapType(StringType(), StringType()), ["ab"]),
        (ArrayType(LongType(), containsNull=False), [1, None]),
        (StructType().add("n", LongType(), nullable=False), (None,)),
    ],
)
def test_value_of_another_type_is_refused(kind: DataType, value: object) -> None:
    text = f"column `the column` {kind.simpleString().upper()} cannot hold {value!r}: "
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        packed(StructType().add("the column", kind), (None,), (value,))


def test_null_in_a_not_null_column_is_refused() -> None:
    packer = RowPacker(StructType().add("number", LongType(), nullable=False))
    batch = pa.RecordBatch.from_arrays([pa.nulls(1, pa.int64())], schema=packer.arrow_schema)
    for pack in (lambda: packer.pack([1, None]), lambda: packer.fit(batch)):
        with pytest.raises(ValueError, match="column `number` BIGINT"):
            pack()


# ---- Record batches ------------------------------------------------------------------------------


def test_record_batch_is_put_in_order_and_cast() -> None:
    packer = RowPacker(PAIR)
    batch = pa.RecordBatch.from_pydict({"text": ["a"], "number": pa.array([1], pa.int32())})
    fitted = packer.fit(batch)
    assert fitted.schema.equals(packer.arrow_schema)
    assert fitted.to_pylist() == [{"number": 1, "text": "a"}]
    assert packer.fit(fitted).equals(fitted)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (LongType(), pa.array(["1"])),
        (TimestampType(), pa.array([NAIVE])),
        (ArrayType(TimestampType()), pa.array([[NAIVE]])),
    ],
)
def test_lossy_cast_is_refused_if_strict(kind: DataType, values: pa.Array) -> None:
    """`core.arrow_casts` has the rules, and their tests."""
    batch = pa.RecordBatch.from_arrays([values], ["value"])
    packer = RowPacker(StructType().add("value", kind))
    with pytest.raises(ValueError, match=r"^column `value` "):
        packer.fit(batch)
    assert packer.fit(batch, strict=False).num_rows == 1


def test_double_is_rounded_to_a_float_column() -> None:
    packer = RowPacker(StructType().add("x", FloatType()))
    batch = packer.fit(pa.RecordBatch.from_pydict({"x": [0.1]}))
    assert batch.column(0).to_pylist() == [np.float32(0.1)]


# ---- The buffer ----------------------------------------------------------------------------------


def test_rows_and_batches_keep_their_order() -> None:
    buffer, row = Buffer(RowPacker(NUMBER)), {"number": 1}
    buffer.add(row, token="one")
    row["number"] = 2  # it may be reused
    buffer.add(row)
    buffer.add_batch(pa.RecordBatch.from_pydict({"number": [3, 4]}), token="three and four")
    buffer.add(5)
    batches, tokens = buffer.take()
    assert [row["number"] for batch in batches for row in batch.to_pylist()] == [1, 2, 3, 4, 5]
    assert tokens == ["one", "three and four"]
    assert buffer.take() == ([], [])


def test_wrong_row_cannot_be_skipped() -> None:
    """Its error comes thousands of rows later; a `fill` that caught it would lose those rows."""
    buffer = Buffer(RowPacker(NUMBER))
    for row in [*range(60_000), "wrong", *range(10_000)]:
        with suppress(ValueError):
            buffer.add(row, token=row)
    with pytest.raises(ValueError, match=r"^column `number` BIGINT cannot hold 'wrong': "):
        buffer.take()
