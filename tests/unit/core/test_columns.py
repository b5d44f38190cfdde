"""The columns that a sink takes."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tutorial_pkg.core.columns import check_columns

TAKEN = {"value": (StringType(),), "topic": (StringType(),)}


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (["value", "value", "topic"], "`value` is there twice: choose and cast"),
        (["value", "text"], "there is `text`"),
        (["topic"], "`value` is missing"),
        (["value", "topic", "number"], "there is `number`"),
        (["value"], "give the option `topic`, or a column `topic`"),
    ],
)
def test_columns_that_a_sink_does_not_take_are_told(names: list[str], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        _check(*(StructField(name, StringType()) for name in names))


def test_a_column_of_another_type_is_told() -> None:
    with pytest.raises(ValueError, match="`value` is bigint, not string"):
        _check(StructField("value", LongType()), StructField("topic", StringType()))


def test_columns_that_it_takes() -> None:
    _check(StructField("topic", StringType()), StructField("value", StringType()))


def _check(*fields: StructField) -> None:
    check_columns("some", StructType([*fields]), TAKEN, "value", "topic", None)
