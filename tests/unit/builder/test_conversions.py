"""Every value of every type is packed unchanged, or refused with the name of its column."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import assume
from pyspark.sql.types import DataType, StructType

from tests.properties import ANYTHING, EXAMPLES, KINDS, holds, same, structs, typed
from tutorial_pkg.builder.frames import batches_of, encode
from tutorial_pkg.builder.rows import RowPacker


def read(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return batch.to_pylist(maps_as_pydicts="strict")


@EXAMPLES
def test_row_is_read_back_unchanged(examples: int) -> None:
    """Pack a dict and a tuple, and read them from a frame of the log."""

    def check(found: tuple[StructType, list[dict[str, Any] | None]]) -> None:
        schema, rows = found
        given = [row for row in rows if row is not None]
        assume(given)
        packer = RowPacker(schema)
        batch = packer.pack(given)
        assert batch.schema.equals(packer.arrow_schema)
        [logged] = batches_of(encode([batch], "{}"))
        assert same(read(logged), given)
        assert packer.pack([tuple(row[name] for name in schema.names) for row in given]).equals(
            batch
        )

    holds(check, examples, typed(structs(KINDS)))


@EXAMPLES
def test_any_value_is_unchanged_or_refused(examples: int) -> None:
    """Try values that a program may add by mistake."""

    def check(kind: DataType, value: Any) -> None:
        packer = RowPacker(StructType().add("the column", kind))
        try:
            [row] = read(packer.pack([(value,)]))
        except ValueError as error:
            assert "`the column`" in str(error)
        else:
            assert means(row["the column"], value, kind)

    holds(check, examples, KINDS, ANYTHING)


@EXAMPLES
def test_any_batch_is_unchanged_or_refused(examples: int) -> None:
    def check(found: tuple[DataType, list[Any]], kind: DataType) -> None:
        of, rows = found
        given = RowPacker(StructType().add("the column", of)).pack([(row,) for row in rows])
        packer = RowPacker(StructType().add("the column", kind))
        try:
            fitted = packer.fit(given)
        except ValueError as error:
            assert "`the column`" in str(error)
        else:
            assert fitted.schema.equals(packer.arrow_schema)
            for row, value in zip(read(fitted), rows, strict=True):
                assert means(row["the column"], value, kind)

    holds(check, examples, typed(), KINDS)


def means(found: Any, given: Any, kind: DataType) -> bool:
    """The same value, perhaps in a wider type: an int in DOUBLE, or rounded to FLOAT's digits."""
    if isinstance(found, dict) and not isinstance(given, dict):
        return len(found) == 1 and means(*found.values(), given, kind)  # as in a row
    if isinstance(found, dict) and isinstance(given, dict):
        # the keys of a map may become wider; what a dict lacks of a struct is null
        return len(found) >= len(given) and all(
            f is None or any(means(f, g, kind) for g in given.values()) for f in found.values()
        )
    if isinstance(found, list) and isinstance(given, list):
        return len(found) == len(given) and all(
            means(*pair, kind) for pair in zip(found, given, strict=True)
        )
    if isinstance(found, float | int | Decimal) and isinstance(given, float | int | Decimal):
        if isinstance(given, bool) or isinstance(found, bool):
            return found is given
        if isinstance(found, float):
            if math.isinf(found) and not math.isinf(given):
                return False
            wide = pa.array([given if isinstance(given, float) else float(given)], pa.float64())
            return same(found, float(given)) or same(found, wide.cast(pa.float32())[0].as_py())
        return bool(found == given)
    if isinstance(found, datetime) and found.tzinfo and isinstance(given, datetime):
        return found == given.astimezone()  # of this process's zone, if it does not say one
    if isinstance(found, bytes | str) and isinstance(given, bytes | str):
        return _encoded(found) == _encoded(given)  # a column that says which it has may be cast
    return same(found, given)


def _encoded(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else value
