"""Random tests: a few in `make test`, many in `make soak`; and the soak's parts."""

from __future__ import annotations

from typing import Any

import pytest


def few_or_many(name: str, few: object, many: object) -> pytest.MarkDecorator:
    """Give a test the parameter `name`: `few` in every run, `many` in the soak."""
    values = [pytest.param(few, id="few"), pytest.param(many, id="many", marks=pytest.mark.soak)]
    return pytest.mark.parametrize(name, values)


def part_of(tests: list[Any], part: str) -> list[Any]:
    """Return every twelfth test for `3/12`, from the fourth on; `15/12` has the same tests.

    Long tests are next to each other, so each part gets about the same number of them.
    """
    number, parts = map(int, part.split("/"))
    return tests[number % parts :: parts]
