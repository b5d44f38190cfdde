"""The diagrams: every box and arrow there, the chosen box marked, names escaped."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tutorial_pkg.workbook.diagrams import CHOSEN, flow

SVG = "{http://www.w3.org/2000/svg}"


def test_boxes_arrows_and_the_chosen_one() -> None:
    root = ElementTree.fromstring(
        flow("items -> sink -> data.0.csv | data.1.csv", here="sink").data
    )
    assert [text.text for text in root.iter(f"{SVG}text")] == [
        "items",
        "sink",
        "data.0.csv",
        "data.1.csv",
    ]
    assert len(list(root.iter(f"{SVG}line"))) == 3
    assert [box.get("fill") for box in root.iter(f"{SVG}rect")].count(CHOSEN) == 1


def test_a_name_may_hold_any_character() -> None:
    root = ElementTree.fromstring(flow("a < b & c -> d").data)
    assert next(root.iter(f"{SVG}text")).text == "a < b & c"


def test_arrows_one_to_one() -> None:
    root = ElementTree.fromstring(flow("A | B => C | D -> E").data)
    ends = [(line.get("y1"), line.get("y2")) for line in root.iter(f"{SVG}line")]
    assert len(ends) == 4
    assert all(start == end for start, end in ends[:2]), "they run straight across"
    assert len({end for _, end in ends[2:]}) == 2, "heads at one box lie side by side"
    with pytest.raises(ValueError, match="as many boxes, not 2 and 1: use `->`"):
        flow("A | B => C")


def test_a_box_is_as_wide_as_its_text() -> None:
    root = ElementTree.fromstring(flow("a -> record.json, put there by a rename").data)
    short, long = [float(box.get("width")) for box in root.iter(f"{SVG}rect")][-2:]
    assert short < 40
    assert long > 7 * len("record.json, put there by a rename") + 10
