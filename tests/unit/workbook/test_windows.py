"""Windows seen: what a picture shows, which nbval does not compare."""

from __future__ import annotations

import matplotlib

from workbook.windows import _lanes, draw_windows

matplotlib.use("Agg")


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
