"""Words of the workbook's text, and their weights, by cases done by hand."""

from __future__ import annotations

import math
from pathlib import Path

import nbformat
import pytest

from tutorial_pkg.workbook.words import Line, lines_of, search, tf_idf, words_of

LINES = [Line("00", "the port, the PORT"), Line("01", "the file"), Line("02", "the file is a port")]


def test_words() -> None:
    assert words_of("Read `last_error(q)`, [the log](../logs/a.md) <br>2 x") == [
        "read",
        "last_error",
        "the",
        "log",
    ]


def test_the_lines_of_a_notebook(tmp_path: Path) -> None:
    new = nbformat.v4
    cells = [new.new_markdown_cell("# One\n\ntwo"), new.new_code_cell("three")]
    nbformat.write(new.new_notebook(cells=cells), tmp_path / "07_seven.ipynb")
    nbformat.write(new.new_notebook(), tmp_path / "08_eight.ipynb")
    assert lines_of(tmp_path, ["07", "08", "09"]) == [Line("07", "# One"), Line("07", "two")]


def test_what_is_in_every_notebook_weighs_nothing() -> None:
    index = tf_idf(LINES)
    assert index["00", "the"] == 0
    assert index["00", "port"] == pytest.approx(2 * math.log(3 / 2))
    assert index["02", "is"] == pytest.approx(math.log(3))
    assert ("01", "port") not in index


def test_a_search_finds_notebooks_with_all_words_the_heaviest_first() -> None:
    index = tf_idf(LINES)
    assert [notebook for notebook, _ in search(index, "port")] == ["00", "02"]
    assert [notebook for notebook, _ in search(index, "file", "port")] == ["02"]
    assert search(index, "nowhere") == []
