"""The values of record batches, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def column(batches: Sequence[Any], name: str) -> list[Any]:
    return [value for batch in batches for value in batch.column(name).to_pylist()]
