"""Casts between Arrow types: which ones would change a value, and why.

Arrow's safe casts refuse a number that overflows, but accept some casts that change values, such
as a timestamp into a date. `check_cast` refuses those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pyarrow as pa

from tutorial_pkg.core import compute as pc

_KINDS: dict[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "boolean": (pa.types.is_boolean,),
    "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "binary": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
    "duration": (pa.types.is_duration,),
    "time": (pa.types.is_date, pa.types.is_time, pa.types.is_timestamp),
    "map": (pa.types.is_map,),
    "struct": (pa.types.is_struct,),
    "list": (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    "list view": (pa.types.is_list_view, pa.types.is_large_list_view),  # Arrow loses its values
}


def check_cast(
    source: pa.DataType,
    target: pa.DataType,
    *,
    same_fields: bool = True,
    may_round: bool = False,
) -> None:
    """Raise `ValueError` with the reason if a cast from `source` to `target` would change values.

    Args:
        same_fields: Whether structs must have the same fields. Without it, Arrow drops fields that
            `target` lacks, and fills fields that `source` lacks with null.
        may_round: Whether a DOUBLE may be rounded to a FLOAT.
    """
    source = _stored(source)
    kind, expected = _kind(source), _kind(target)
    if kind is None or expected is None:
        return
    if kind != expected and {kind, expected} != {"text", "binary"}:
        raise ValueError(f"expected a {expected} ({target}), got a {kind} ({source})")
    if _cuts(source, target, may_round):
        raise ValueError(f"{source} does not fit into {target} unchanged")
    check_inner = partial(check_cast, same_fields=same_fields, may_round=may_round)
    if kind == "time":
        _check_zone(source, target)
    elif kind == "list":
        check_inner(source.value_type, target.value_type)
    elif kind == "map":
        check_inner(source.key_type, target.key_type)
        check_inner(source.item_type, target.item_type)
    elif kind == "struct":
        names, wanted = ([field.name for field in struct] for struct in (source, target))
        if same_fields and sorted(names) != sorted(wanted):
            raise ValueError(f"expected a struct with the fields {wanted}, got {names}")
        check_names(wanted, names)
        for name in [name for name in wanted if name in names]:
            try:
                check_inner(source.field(name).type, target.field(name).type)
            except ValueError as error:
                raise ValueError(f"field `{name}`: {error}") from None


def check_names(expected: Iterable[str], names: Iterable[str]) -> None:
    """Raise `ValueError` for names that differ only in case or spaces: they would become null."""
    names = list(names)
    for name in expected:
        similar = [other for other in names if other.strip().lower() == name.lower()]
        if similar and similar.count(name) != 1:
            raise ValueError(f"expected one column `{name}`, got {similar}; names must be equal")


def cast_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast with Arrow's checks, and raise `ArrowInvalid` if a number would become infinity."""
    cast = array.cast(target)
    if _count_infinities(cast) > _count_infinities(array):
        raise pa.ArrowInvalid("a number is beyond the range of FLOAT")
    return cast


def _count_infinities(array: pa.Array) -> int:
    if pa.types.is_floating(array.type):
        return int(pc.sum(pc.is_inf(array)).as_py() or 0)
    inner = []
    if pa.types.is_map(array.type):
        inner = [array.keys, array.items]
    elif pa.types.is_struct(array.type):
        inner = array.flatten()
    elif _kind(array.type) in ("list", "list view"):
        inner = [array.flatten()]
    return sum(map(_count_infinities, inner))


def _stored(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _stored(kind.value_type)
    return _stored(kind.storage_type) if isinstance(kind, pa.BaseExtensionType) else kind


def _kind(kind: pa.DataType) -> str | None:
    return next((name for name, kinds in _KINDS.items() if any(is_(kind) for is_ in kinds)), None)


def _cuts(source: pa.DataType, target: pa.DataType, may_round: bool) -> bool:
    if pa.types.is_timestamp(source):
        return not pa.types.is_timestamp(target)
    floats = [pa.types.is_floating(source), pa.types.is_floating(target)]
    if all(floats):
        return bool(source.bit_width > target.bit_width and not may_round)
    return any(floats) and (pa.types.is_decimal(source) or pa.types.is_decimal(target))


def _check_zone(source: pa.DataType, target: pa.DataType) -> None:
    has_zone, needs_zone = (bool(getattr(kind, "tz", None)) for kind in (source, target))
    if has_zone != needs_zone:
        if has_zone:
            remedy = "`pc.local_timestamp(column)`, or read it as TIMESTAMP"
        else:
            remedy = '`pc.assume_timezone(column, "UTC")`, or read it as TIMESTAMP_NTZ'
        raise ValueError(f"only one of {source} and {target} has a time zone: {remedy}")
