"""JSON, read with care."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["read_json"]


def read_json(text: str) -> Any:
    """What is in it. Raises `ValueError`, also for equal keys: `json` takes the last of them."""
    return json.loads(text, object_pairs_hook=_distinct)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"JSON's keys are texts, and of these some are equal: {pairs}")
    return found
