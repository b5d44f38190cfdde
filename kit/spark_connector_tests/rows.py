"""Compare rows: which are missing, duplicated or changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from spark_connector_tests.promise import Broken

_SHOWN = 3


def check_once(expected: Iterable[object], seen: Iterable[object], when: str) -> None:
    """Raise `Broken` unless `seen` contains each of `expected` once, and nothing else."""
    wanted, found = Counter(expected), Counter(seen)
    missing, extra = wanted - found, found - wanted
    unknown = Counter({row: times for row, times in extra.items() if row not in wanted})
    kinds = (
        (missing, "missing", "missing"),
        (extra - unknown, "a duplicate", "duplicates"),
        (unknown, "unexpected", "unexpected"),
    )
    parts = [_counted(rows, wanted.total(), one, many) for rows, one, many in kinds if rows]
    if parts:
        raise Broken(f"{when}, {' and '.join(parts)}", rows_missing=not extra)


def check_same(
    first: Sequence[tuple[int, int]], second: Sequence[tuple[int, int]], when: str
) -> None:
    """Raise `Broken` unless a batch contained the same rows twice, in any order."""
    numbers, again = ([number for number, _ in rows] for rows in (first, second))
    if Counter(numbers) != Counter(again):
        raise Broken(f"a batch had {len(first):,} rows, and {len(second):,} {when}")
    if changed := (Counter(first) - Counter(second)).total():
        raise Broken(f"{changed:,} of a batch's {len(first):,} rows had other values {when}")


def comparable(value: Any) -> Any:
    """Return a hashable value that is equal for values of the same type and content."""
    if isinstance(value, datetime):
        return "datetime", value.astimezone(UTC).isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes", bytes(value)
    if isinstance(value, Mapping):
        return frozenset((comparable(key), comparable(part)) for key, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(comparable, value))
    return type(value).__name__, repr(value) if isinstance(value, float) else value


def _counted(rows: Counter[object], total: int, one: str, many: str) -> str:
    """Return a phrase like `3 of 23 rows are missing (20, 21, 22)`."""
    first = sorted(rows, key=lambda row: (len(str(row)), str(row)))[:_SHOWN]
    more = " …" if len(rows) > _SHOWN else ""
    count = rows.total()
    verb = f"is {one}" if count == 1 else f"are {many}"
    return f"{count:,} of {total:,} rows {verb} ({', '.join(map(_short, first))}{more})"


def _short(row: object) -> str:
    text = repr(row)
    return text if len(text) <= 40 else f"{text[:40]}…"
