"""The names of the files that readers see."""

from __future__ import annotations

DATA_FILES = "data.*.csv"


def file_name(partition: int, part: int = 0) -> str:
    """`data.<partition>.csv`, and `data.<partition>.<part>.csv` for those that follow it."""
    return f"data.{partition}.{part}.csv" if part else f"data.{partition}.csv"
