"""Random tests: a few in `make test`, many in `make soak`; and the soak's parts."""

from __future__ import annotations

from typing import Any

import pytest


def few_or_many(name: str, few: object, many: object) -> pytest.MarkDecorator:
    """The parameter `name` of a test: `few` in every run, `many` in the soak."""
    values = [pytest.param(few, id="few"), pytest.param(many, id="many", marks=pytest.mark.soak)]
    return pytest.mark.parametrize(name, values)


def part_of(tests: list[Any], part: str) -> list[Any]:
    """Of `3/12` the fourth, the sixteenth and so on; of `15/12` too, so a day's number will do.

    Long tests stand beside each other, so that each part gets about as many of them.
    """
    number, parts = map(int, part.split("/"))
    return tests[number % parts :: parts]
