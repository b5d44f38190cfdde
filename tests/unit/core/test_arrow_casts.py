"""Casts of Arrow that would change values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tutorial_pkg.core.arrow_casts import cast_array, check_cast, check_names

MICROS, UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
STRUCT = pa.struct([("id", pa.int64()), ("price", pa.float64())])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.int8(), pa.int64()),
        (pa.int64(), pa.float64()),
        (pa.int64(), pa.decimal128(20, 2)),
        (pa.null(), STRUCT),
        (pa.string(), pa.binary()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string()),
        (pa.timestamp("ns", "Asia/Tokyo"), UTC),
        (pa.date32(), MICROS),
        (pa.large_list(pa.int8()), pa.list_(pa.int64())),
        (pa.list_(pa.int8(), 2), pa.list_(pa.int64())),
        (STRUCT, pa.struct([("price", pa.float64()), ("id", pa.decimal128(20, 0))])),
    ],
)
def test_safe_cast_has_no_problem(source: pa.DataType, target: pa.DataType) -> None:
    check_cast(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.string(), pa.int64()),
        (pa.dictionary(pa.int32(), pa.string()), pa.int64()),
        (pa.json_(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.bool_(), pa.int64()),
        (pa.int64(), UTC),
        (UTC, pa.int64()),
        (pa.duration("us"), pa.int64()),
        (UTC, MICROS),
        (MICROS, UTC),
        (pa.date32(), UTC),
        (MICROS, pa.date32()),
        (MICROS, pa.time64("us")),
        (pa.float64(), pa.float32()),
        (pa.float64(), pa.decimal128(9, 2)),
        (pa.decimal128(9, 2), pa.float64()),
        (pa.list_view(pa.int64()), pa.list_(pa.int64())),
        (pa.list_(pa.float64()), pa.list_(pa.float32())),
        (pa.list_(pa.float64(), 1), pa.list_(pa.float32())),
        (pa.map_(pa.string(), pa.float64()), pa.map_(pa.string(), pa.float32())),
        (pa.map_(pa.string(), pa.int64()), pa.list_(STRUCT)),
        (STRUCT, pa.struct([("id", pa.int64())])),
    ],
)
def test_lossy_cast_has_a_problem(source: pa.DataType, target: pa.DataType) -> None:
    with pytest.raises(ValueError):
        check_cast(source, target)


def test_problem_names_the_field_of_a_struct() -> None:
    target = pa.struct([("id", pa.int64()), ("price", pa.float32())])
    with pytest.raises(ValueError, match="`price`"):
        check_cast(STRUCT, target)
    check_cast(STRUCT, target, may_round=True)


def test_structs_may_differ_on_request() -> None:
    target = pa.struct([("id", pa.int64()), ("other", pa.string())])
    check_cast(STRUCT, target, same_fields=False)
    with pytest.raises(ValueError, match="`ID`"):
        check_cast(STRUCT, pa.struct([("ID", pa.int64())]), same_fields=False)


@pytest.mark.parametrize("names", [["ID"], [" id"], ["id", "id"]])
def test_names_that_differ_in_case_are_refused(names: list[str]) -> None:
    check_names(["id"], ["id", "Id", "other"])
    check_names(["id"], ["other"])
    with pytest.raises(ValueError, match="`id`"):
        check_names(["id"], names)


def test_number_beyond_float_is_an_error() -> None:
    array = pa.array([[1e300], [float("inf")]])
    with pytest.raises(pa.ArrowInvalid):
        cast_array(array, pa.list_(pa.float32()))
    assert cast_array(array.slice(1), pa.list_(pa.float32())).to_pylist() == [[float("inf")]]
