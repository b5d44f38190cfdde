"""What is done at random: a little of it in `make test`, much of it in `make soak`."""

from __future__ import annotations

import pytest


def few_or_many(name: str, few: object, many: object) -> pytest.MarkDecorator:
    """The parameter `name` of a test: `few` in every run, `many` in the soak."""
    values = [pytest.param(few, id="few"), pytest.param(many, id="many", marks=pytest.mark.soak)]
    return pytest.mark.parametrize(name, values)
