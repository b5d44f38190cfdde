"""Charts: units on the axes, numbers and times in full; `watch` draws what sources report."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from matplotlib import pyplot as plt

from workbook.live import picture
from workbook.look import chart, with_commas


def labels(figure: Any, axis: Any) -> list[str]:
    figure.canvas.draw()
    return [label.get_text() for label in axis.get_ticklabels()]


def test_numbers_are_written_in_full() -> None:
    figure, axes = chart("seconds", "rows per second")
    axes.plot([0, 1], [0, 2_000_000])
    with_commas(axes.yaxis)
    assert "2,000,000" in labels(figure, axes.yaxis)
    assert axes.yaxis.get_offset_text().get_text() == ""
    axes.set_yscale("log")
    with_commas(axes.yaxis)
    assert "100,000" in labels(figure, axes.yaxis)
    plt.close(figure)


def test_times_are_clock_times() -> None:
    figure, axes = chart("time (UTC)", "CPU load")
    axes.plot([datetime(2026, 11, 21, 6, 51, 30 + n) for n in range(9)], range(9))
    assert "06:51:30" in labels(figure, axes.xaxis)
    plt.close(figure)


class Batch:
    def __init__(self, number: int, latest: str | None) -> None:
        self.batchId, self.numInputRows, self.batchDuration = number, 2000, 30
        source = type("Source", (), {"endOffset": '{"next": 5}', "latestOffset": latest})
        self.sources = [source]


def titles(unit: str) -> list[str]:
    return [axis.get_title() for axis in picture([Batch(0, '{"next": 7}')], unit).axes]


def test_a_lag_panel_only_where_lag_is_reported() -> None:
    two = ["rows in each batch", "milliseconds for each batch"]
    assert titles("") == two
    assert titles("bytes") == [*two, "lag behind the source, bytes"]
    panel = picture([Batch(0, None), Batch(1, '{"next": 7}')], "bytes").axes[2]
    assert [bar.get_height() for bar in panel.patches] == [0, 2]
