"""Spark's filters as comparisons, and what statistics say about them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import types

from tests.since import since_4_1
from tutorial_pkg.core.filters import Comparison, comparisons

SCHEMA = types.StructType().add("n", types.LongType()).add("s", types.StringType())
SCHEMA = SCHEMA.add("x", types.DoubleType()).add("i", types.StringType("UTF8_LCASE"))


@since_4_1
def test_only_exact_filters_become_comparisons() -> None:
    from pyspark.sql import datasource as spark

    exact = [
        spark.EqualTo(("n",), 1),
        spark.EqualNullSafe(("s",), "a"),
        spark.In(("n",), (1, None)),
        spark.IsNull(("n",)),
    ]
    others = [
        spark.EqualTo(("x",), 1.0),
        spark.GreaterThan(("s",), "a"),
        spark.EqualTo(("i",), "a"),
        spark.EqualNullSafe(("n",), None),
        spark.In(("n",), (None,)),
        spark.Not(spark.EqualTo(("n",), 1)),
        spark.StringStartsWith(("s",), "a"),
        spark.EqualTo(("n", "s"), 1),
        spark.EqualTo(("unknown",), 1),
    ]
    assert list(comparisons([*others, *exact], SCHEMA)) == [
        Comparison("n", "=", 1),
        Comparison("s", "=", "a"),
        Comparison("n", "IN", [1]),
        Comparison("n", "IS NULL"),
    ]


@pytest.mark.parametrize(
    "bound", [None, 1.0, True, "1", date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)]
)
def test_range_of_another_type_excludes_nothing(bound: Any) -> None:
    assert Comparison("n", "=", 7).may_hold(bound, bound)
    assert Comparison("n", "<", datetime(2020, 1, 1)).may_hold(bound, bound)
    assert Comparison("n", "IS NULL").may_hold(bound, bound)
