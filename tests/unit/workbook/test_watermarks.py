"""Watermark policies over arrivals: followed, coalesced, throttled, by cases done by hand."""

from __future__ import annotations

import matplotlib
import pytest

from tutorial_pkg.workbook import watermarks
from tutorial_pkg.workbook.watermarks import (
    LAG,
    Arrival,
    arrivals,
    behind,
    by_frame,
    draw_policies,
    followed,
    least,
)

matplotlib.use("Agg")


def lag(seen: list[Arrival], now: float) -> float | None:
    return max(time for _, time in seen) - LAG if seen else None


def test_a_policy_sees_only_what_has_arrived() -> None:
    marks = followed(lag, [(1.0, 10.0), (2.0, 20.0)])
    assert marks[3:5] == [None, 6.0]
    assert marks[8] == marks[-1] == 16.0


def test_a_watermark_is_never_taken_back() -> None:
    marks = followed(lambda seen, now: seen[-1][1] if seen else None, [(1.0, 10.0), (2.0, 5.0)])
    assert marks[-1] == 10.0


def test_coalesced_is_the_least_and_waits_for_all() -> None:
    assert least([[None, 5, 7], [1, 2, 9]]) == [None, 2, 7]


def test_one_watermark_for_each_frame() -> None:
    assert by_frame([None, 1, 2, 9.9, 10, 14, 35], frame=10) == [1, 10, 35]


def test_behind_the_watermark_of_before() -> None:
    marks = followed(lag, [(1.0, 10.0), (2.0, 5.9), (3.0, 6.1)])
    assert behind(marks, [(2.0, 5.9), (3.0, 6.1)]) == 1


@pytest.mark.parametrize("exchange", [0, 1])
def test_the_arrivals_are_disordered_and_have_a_silence(exchange: int) -> None:
    seen = arrivals(exchange)
    clocks, times = zip(*seen, strict=True)
    assert list(clocks) == sorted(clocks)
    assert list(times) != sorted(times)
    following = [*clocks[1:], watermarks.END]
    assert max(b - a for a, b in zip(clocks, following, strict=True)) >= 12
    assert all(0 <= clock - 3 * exchange - time <= 5 for clock, time in seen)


def test_the_drawing_has_a_line_for_each_policy() -> None:
    figure = draw_policies({"lag": lag, "same": lag}, [arrivals(0), arrivals(1)])
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["trades of exchange 0", "trades of exchange 1", "lag", "same"]
