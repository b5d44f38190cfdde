"""Windows seen: the trade monitor's lines read back while they are written, and each kind drawn."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import matplotlib

from tutorial_pkg.workbook.windows import _lanes, draw_counts, draw_windows, results

matplotlib.use("Agg")


def test_whole_lines_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "data.0.csv").write_text("1583309377078,0.5,TREE 1000 7\n1583309377078,0.5,SALT 10")
    (tmp_path / "data.1.csv").write_text("1583309377078,0.5,SALT 1010 8\n")
    found = results(tmp_path)
    assert found == {
        ("TREE", datetime.fromtimestamp(1000, UTC)): 7,
        ("SALT", datetime.fromtimestamp(1010, UTC)): 8,
    }
    lines = draw_counts(found).axes[0].get_lines()
    assert [(line.get_label(), *line.get_ydata()) for line in lines] == [("SALT", 8), ("TREE", 7)]


def test_nothing_yet() -> None:
    assert draw_counts({}).axes[0].get_legend() is None


def test_windows_that_overlap_get_rows_of_their_own() -> None:
    assert _lanes([(0, 30, 1), (10, 40, 1), (20, 50, 1), (30, 60, 1)]) == [
        [(0, 30, 1), (30, 60, 1)],
        [(10, 40, 1)],
        [(20, 50, 1)],
    ]


def test_each_window_is_drawn_with_its_count() -> None:
    figure = draw_windows([1, 2, 12], {"tumbling": [(0, 10, 2), (10, 20, 1)], "one": [(0, 20, 3)]})
    assert [text.get_text() for text in figure.axes[0].texts] == ["2", "1", "3"]
    assert [bar.get_width() for bar in figure.axes[0].patches] == [10, 10, 20]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "trades",
        "tumbling",
        "one",
    ]
