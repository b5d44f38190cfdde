"""The columns that a sink takes."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tutorial_pkg.core.columns import check_columns

TAKEN = {"value": (StringType(),), "topic": (StringType(),)}


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (["value", "value", "topic"], "got `value` string, `value` string, "),
        (["value", "text"], "got `value` string, `text` string: choose"),
        (["topic"], "required are `value` .* got `topic` string: "),
        (["value", "topic", "number"], "`number` string"),
        (["value"], "without the option `topic`, `topic`; got `value` string: "),
    ],
)
def test_unfit_columns_are_named(names: list[str], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        _check(*(StructField(name, StringType()) for name in names))


def test_wrong_type_is_named() -> None:
    with pytest.raises(ValueError, match=r"`value` string, .*got `value` bigint"):
        _check(StructField("value", LongType()), StructField("topic", StringType()))


def _check(*fields: StructField) -> None:
    check_columns("some", StructType([*fields]), TAKEN, "value", "topic", None)
