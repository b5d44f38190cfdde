"""Casts between Arrow types: which ones would change a value, and why.

Arrow's safe casts already refuse a number that overflows, a fraction that would be cut, and text
that it cannot parse. They still accept some casts that change values without an error, for example
a timestamp into a date. `cast_problem` finds those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import permutations

import pyarrow as pa

from tutorial_pkg.core import compute as pc

_IsKind = Callable[[pa.DataType], bool]
_KINDS: dict[str, tuple[_IsKind, ...]] = {
    "boolean": (pa.types.is_boolean,),
    "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "binary": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
    "duration": (pa.types.is_duration,),
    "time": (pa.types.is_date, pa.types.is_time, pa.types.is_timestamp),
}


def cast_problem(
    source: pa.DataType,
    target: pa.DataType,
    *,
    same_fields: bool = True,
    may_round: bool = False,
) -> str | None:
    """Return why a cast from `source` to `target` would change values, or None if it would not.

    Args:
        same_fields: Whether structs must have the same fields. Without it, Arrow drops fields that
            `target` lacks, and fills fields that `source` lacks with null.
        may_round: Whether a DOUBLE may be rounded to a FLOAT.
    """
    source = _stored(source)
    if pa.types.is_list_view(source) or pa.types.is_large_list_view(source):
        return f"{source} loses values when Arrow casts it; convert it to a list"
    if pa.types.is_nested(source) or pa.types.is_nested(target):
        return _nested_problem(source, target, same_fields, may_round)
    kind, expected = _kind(source), _kind(target)
    if kind is None or expected is None:
        return None
    if kind != expected and {kind, expected} != {"text", "binary"}:
        return f"expected a {expected} ({target}), got a {kind} ({source})"
    if _cuts(source, target) or (not may_round and _rounds(source, target)):
        return f"{source} does not fit into {target} unchanged"
    if kind == "time":
        return _zone_problem(source, target)
    return None


def check_names(expected: Iterable[str], names: Iterable[str]) -> None:
    """Raise `ValueError` for names that differ only in case or spaces: they would become null."""
    if problem := _name_problem(expected, list(names)):
        raise ValueError(problem)


def cast_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast with Arrow's checks, and raise `ArrowInvalid` if a number would become infinity."""
    cast = array.cast(target)
    if count_infinities(cast) > count_infinities(array):
        raise pa.ArrowInvalid("a number is beyond the range of FLOAT")
    return cast


def count_infinities(array: pa.Array) -> int:
    """Count infinite numbers, also within lists, maps and structs."""
    kind = array.type
    if pa.types.is_floating(kind):
        return int(pc.sum(pc.is_inf(array)).as_py() or 0)
    if pa.types.is_map(kind):
        return count_infinities(array.keys) + count_infinities(array.items)
    if pa.types.is_struct(kind):
        return sum(map(count_infinities, array.flatten()))
    if hasattr(kind, "value_type") and not pa.types.is_dictionary(kind):
        return count_infinities(array.flatten())
    return 0


def _stored(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values behind a dictionary or an extension type."""
    if pa.types.is_dictionary(kind):
        return _stored(kind.value_type)
    return _stored(kind.storage_type) if isinstance(kind, pa.BaseExtensionType) else kind


def _kind(kind: pa.DataType) -> str | None:
    return next((name for name, kinds in _KINDS.items() if any(is_(kind) for is_ in kinds)), None)


def _name_problem(expected: Iterable[str], names: list[str]) -> str | None:
    for name in expected:
        similar = [other for other in names if other.strip().lower() == name.lower()]
        if similar and similar.count(name) != 1:
            return f"expected one column `{name}`, got {similar}; names must be equal"
    return None


def _cuts(source: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_timestamp(source):
        return not pa.types.is_timestamp(target)
    kinds = (pa.types.is_floating, pa.types.is_decimal)
    return any(one(source) and other(target) for one, other in permutations(kinds))


def _rounds(source: pa.DataType, target: pa.DataType) -> bool:
    floating = pa.types.is_floating(source) and pa.types.is_floating(target)
    return bool(floating and source.bit_width > target.bit_width)


def _zone_problem(source: pa.DataType, target: pa.DataType) -> str | None:
    has_zone, needs_zone = (bool(getattr(kind, "tz", None)) for kind in (source, target))
    if needs_zone and not has_zone:
        return (
            f"{source} has no time zone, but {target} does; name the zone: "
            '`pc.assume_timezone(column, "UTC")`, or read it as TIMESTAMP_NTZ'
        )
    if has_zone and not needs_zone:
        return (
            f"{source} has a time zone, but {target} does not; take the local time: "
            "`pc.local_timestamp(column)`, or read it as TIMESTAMP"
        )
    return None


def _nested_problem(
    source: pa.DataType, target: pa.DataType, same_fields: bool, may_round: bool
) -> str | None:
    if pa.types.is_null(source):
        return None
    if _shape(source) != _shape(target):
        return f"expected {target}, got {source}"  # to Arrow, a map is a list of structs
    if pa.types.is_struct(source):
        names, expected = [[field.name for field in kind] for kind in (source, target)]
        if same_fields and sorted(names) != sorted(expected):
            return f"expected a struct with the fields {expected}, got {names}"
        if problem := _name_problem(expected, names):
            return problem
    for name, inner, inner_target in _inner_types(source, target):
        problem = cast_problem(inner, inner_target, same_fields=same_fields, may_round=may_round)
        if problem:
            return f"field `{name}`: {problem}" if name else problem
    return None


def _shape(kind: pa.DataType) -> str:
    if pa.types.is_map(kind) or pa.types.is_struct(kind):
        return "map" if pa.types.is_map(kind) else "struct"
    return "list" if pa.types.is_nested(kind) else "value"


def _inner_types(
    source: pa.DataType, target: pa.DataType
) -> Iterator[tuple[str, pa.DataType, pa.DataType]]:
    if pa.types.is_map(target):
        yield "", source.key_type, target.key_type
        yield "", source.item_type, target.item_type
    elif pa.types.is_struct(target):
        names = {field.name for field in source}
        for field in target:
            if field.name in names:
                yield field.name, source.field(field.name).type, field.type
    elif hasattr(source, "value_type") and hasattr(target, "value_type"):
        yield "", source.value_type, target.value_type
