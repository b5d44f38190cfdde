"""What the explainers show: complete, and as plain Python computes it."""

from __future__ import annotations

import itertools
from typing import Any

from workbook.explainers import crash, crash_explainer, watermark, watermark_explainer
from workbook.explainers.widget import stored


def by_hand(delay: int, second: int) -> list[dict[str, Any]]:
    """The same steps as the query's, from the definition of the watermark."""
    mark, counts, steps = None, {}, []
    for time in (second if time is None else time for time in watermark.ARRIVALS):
        start = time // watermark.WINDOW * watermark.WINDOW
        late = mark is not None and start + watermark.WINDOW <= mark
        if not late:
            counts[start] = counts.get(start, 0) + 1
        mark = max(time - delay, time - delay if mark is None else mark)
        closed = sorted(start for start in counts if start + watermark.WINDOW <= mark)
        steps.append(
            {
                "dropped": late,
                "watermark": mark,
                "closed": [[start, counts.pop(start)] for start in closed],
            }
        )
    return steps


def test_each_recorded_run_is_what_the_definition_of_a_watermark_gives() -> None:
    runs = stored(watermark.FILE)
    choices = [(run["delay"], run["second"]) for run in runs]
    assert choices == list(itertools.product(watermark.DELAYS, watermark.POSITIONS))
    for run in runs:
        assert run["steps"] == by_hand(run["delay"], run["second"]), run


def test_after_each_crash_every_line_is_there_once() -> None:
    runs = stored(crash.FILE)
    assert [run["point"] for run in runs] == list(crash.STEPS)
    for run in runs:
        assert run["killed"] == run["now"], "a dead query changes nothing"
        published = [file for file in run["restarted"]["sink"].items() if file[0][:4] == "data"]
        assert sorted(line for _, lines in published for line in lines) == crash.ALL
        assert "commits/2" in run["restarted"]["checkpoint"]
        assert not [name for name in run["restarted"]["sink"] if name.startswith("staged")]


def test_a_still_image_takes_the_widget_s_place_where_there_are_none() -> None:
    for explainer in (watermark_explainer(), crash_explainer()):
        shown, _ = explainer._repr_mimebundle_()
        assert "application/vnd.jupyter.widget-view+json" in shown
        assert shown["image/png"].startswith("iVBOR")
        assert shown["text/plain"].endswith("to play with")
