"""The filters of a batch, as comparisons that let a source leave rows out.

Spark evaluates its filters again. So a source may leave out rows that a comparison excludes, must
never leave out others, and may ignore any comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from pyspark.sql import types

_OPERATORS = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "In": "IN",
    "IsNull": "IS NULL",
    "IsNotNull": "IS NOT NULL",
}
_NULLS = ("IS NULL", "IS NOT NULL")
_HOLDS: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
# Their values have the same order everywhere. Floats are missing because of NaN.
_ORDERED = (
    types.IntegralType,
    types.DecimalType,
    types.BooleanType,
    types.DateType,
    types.TimestampType,
    types.TimestampNTZType,
)


class Comparison(NamedTuple):
    """A condition that all wanted rows fulfil: `Comparison("day", ">=", date(2026, 1, 31))`.

    The operators are those of SQL: `=`, `<`, `<=`, `>`, `>=`, `IN` with a list of values, `IS NULL`
    and `IS NOT NULL`.
    """

    column: str
    operator: str
    value: Any = None

    def may_hold(self, least: Any, largest: Any) -> bool:
        """Return whether it may hold for a row, if values are null or in this closed range.

        A range of another type excludes nothing, and neither do `IS NULL` and `IS NOT NULL`.
        """
        values = self.value if self.operator == "IN" else [self.value]
        if self.operator in _NULLS or len({*map(_kind, [least, largest, *values])}) > 1:
            return True
        if self.operator in ("=", "IN"):
            return any(least <= value <= largest for value in values)
        bound = least if self.operator.startswith("<") else largest
        return _HOLDS[self.operator](bound, self.value)


def _kind(value: Any) -> tuple[type, bool]:
    return type(value), getattr(value, "tzinfo", None) is None


def comparisons(filters: Iterable[Any], schema: types.StructType) -> Iterator[Comparison]:
    """Yield those of Spark's filters that mean the same in every system.

    They compare a column with values that have the same order everywhere; texts only with `=` and
    `IN`, because each collation has its own order.
    """
    kinds = {(field.name,): field.dataType for field in schema}
    for condition in filters:
        operator = _OPERATORS.get(type(condition).__name__, "")
        kind = kinds.get(condition.attribute) if operator else None  # `Not` has none
        value: Any = getattr(condition, "value", None)
        if operator == "IN":
            value = [item for item in value if item is not None]
        is_text = kind == types.StringType() and operator in ("=", "IN")
        is_complete = operator in _NULLS or value not in (None, [])
        if (is_text or isinstance(kind, _ORDERED)) and is_complete:
            yield Comparison(condition.attribute[0], operator, value)
