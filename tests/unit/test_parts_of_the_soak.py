"""All parts of the soak together are the whole."""

from __future__ import annotations

from itertools import chain

from tests.soak import part_of


def test_each_test_is_in_one_part() -> None:
    tests = list(range(100))
    parts = [part_of(tests, f"{number}/12") for number in range(12)]
    assert sorted(chain.from_iterable(parts)) == tests
    assert {len(part) for part in parts} == {8, 9}
    assert part_of(tests, "327/12") == parts[3]
