"""JSON without duplicate keys."""

from __future__ import annotations

import json
from typing import Any


def read_json(text: str) -> Any:
    """Parse JSON. Raises `ValueError`, also for equal keys, of which `json` keeps the last."""
    return json.loads(text, object_pairs_hook=_distinct)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    distinct = dict(pairs)
    if len(distinct) < len(pairs):
        raise ValueError(f"JSON has equal keys: {pairs}")
    return distinct
