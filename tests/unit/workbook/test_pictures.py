"""Charts and explainers: what nbval does not compare."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import matplotlib
from matplotlib import pyplot as plt

from tutorial_pkg.observe import BatchMetrics
from workbook import explainers
from workbook.plots import chart, picture, query_panels

matplotlib.use("Agg")
NOW = datetime(2026, 11, 22, tzinfo=UTC)


def test_picture_has_an_alternative_text() -> None:
    shown: list[Any] = []
    figure, _ = chart("seconds", "rows")
    show = lambda *args, **more: shown.append((*args, more))  # noqa: E731
    picture(figure, "Nothing at all.", show)
    [(bundle, more)] = shown
    assert bundle["image/png"].startswith("iVBOR")
    assert bundle["text/plain"] == more["metadata"]["image/png"]["alt"] == "Nothing at all."
    assert not plt.fignum_exists(figure.number)


def test_panels_carry_information() -> None:
    seconds = {"queryPlanning": 0.001, "addBatch": 0.2, "triggerExecution": 0.201}
    batch = BatchMetrics(1, NOW, 10, None, 5.0, 50.0, seconds, 0.0, None, 7, 100, 0)
    phases, rows = query_panels([batch]).axes
    assert ([*rows.texts], [text.get_text() for text in phases.texts]) == ([], ["addBatch"])
    _, lag = query_panels([batch, replace(batch, batch=2, lag=40.0)]).axes
    assert [bar.get_height() for bar in lag.patches] == [0, 40]
    _, _, rows = query_panels([replace(batch, lag=40.0, late_rows=4)]).axes
    assert [text.get_text() for text in rows.texts] == ["dropped\nas late"]
    assert len(query_panels([]).axes) == 2


def test_still_image_replaces_widget() -> None:
    for explainer in (explainers.watermark_explainer(), explainers.crash_explainer()):
        bundle, metadata = explainer._repr_mimebundle_()
        assert bundle["image/png"].startswith("iVBOR")
        assert metadata["image/png"]["alt"]
