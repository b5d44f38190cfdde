"""The diagrams: every box and arrow there, the chosen box marked, names escaped."""

from __future__ import annotations

from xml.etree import ElementTree

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
