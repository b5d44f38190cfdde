"""The dashboard's picture says what the batches say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tutorial_pkg.observe import BatchMetrics, QueryRecord
from workbook.dashboards import picture

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def batch(number: int, lag: float | None, watermark: datetime | None) -> BatchMetrics:
    seconds = {"addBatch": 0.2, "triggerExecution": 0.3}
    return BatchMetrics(number, NOW, 10, None, 5.0, 50.0, seconds, lag, watermark, 7, 100, 1)


def query(name: str, *batches: BatchMetrics, state: str = "running") -> QueryRecord:
    return QueryRecord(name, "id", "run", state, batches=list(batches))


def test_a_row_of_plots_for_each_query_that_runs() -> None:
    old = NOW - timedelta(seconds=90)
    windows = query("windows", batch(0, 1200, None), batch(1, 40, old))
    ended = query("ended", batch(0, 0, None), state="stopped")
    figure = picture([windows, query("mute", batch(0, None, None)), query("new"), ended], NOW)
    rows = [figure.axes[at : at + 4] for at in range(0, len(figure.axes), 4)]
    assert [row[0].get_title() for row in rows] == [
        f"{name}: rows a second" for name in ("windows", "mute", "new")
    ]
    assert [row[2].get_xlabel() for row in rows] == [
        "batch; the watermark is 90 s old",
        "batch",
        "batch",
    ]
    assert list(rows[0][2].lines[0].get_ydata()) == [1200, 40]
    kept, late = rows[0][3].lines
    assert kept.get_linewidth() > late.get_linewidth(), "where both are 0, both are seen"
    assert late.get_color() != rows[0][2].lines[0].get_color(), "late rows are no lag"
    assert list(rows[1][2].lines[0].get_ydata()) == [], "no lag is told, not a lag of 0"
    assert rows[1][2].get_title() == "lag: the source tells none"


def test_there_is_a_picture_before_there_is_a_query() -> None:
    assert len(picture([]).axes) == 4
