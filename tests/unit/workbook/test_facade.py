"""What notebooks import from `workbook`."""

from __future__ import annotations

from pathlib import Path

import workbook


def test_every_name_can_be_imported() -> None:
    assert all(hasattr(workbook, name) for name in workbook.__all__)
    assert set(workbook.__all__) <= set(dir(workbook))


def test_no_name_is_also_a_module() -> None:
    """Otherwise `from workbook import x` would give one or the other, depending on the order."""
    modules = {file.stem for file in Path(workbook.__file__).parent.iterdir()}
    assert not modules & set(workbook.__all__)


def test_map_names_every_module() -> None:
    modules = {file.stem for file in Path(workbook.__file__).parent.iterdir()} - {"__init__"}
    text = workbook.__doc__ or ""
    assert {name for name in modules if f"`{name}`" not in text} <= {"__pycache__"}
