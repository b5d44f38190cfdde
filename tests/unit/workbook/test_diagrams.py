"""What the diagrams in the notebooks do not show; nbval compares those, letter by letter."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from workbook.diagrams import flow

SVG = "{http://www.w3.org/2000/svg}"


def test_a_name_may_hold_any_character() -> None:
    root = ElementTree.fromstring(flow("a < b & c -> d").data)
    assert next(root.iter(f"{SVG}text")).text == "a < b & c"


def test_arrows_one_to_one_need_columns_of_one_length() -> None:
    with pytest.raises(ValueError, match="as many boxes, not 2 and 1: use `->`"):
        flow("A | B => C")
