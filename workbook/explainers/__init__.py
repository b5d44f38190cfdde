"""Two pictures to play with: the watermark, and the crash.

They show what real queries did, not a model of it. `python -m tests.integration.record_explainers`
runs these queries and stores the results in `watermark.json` and `crash.json`. The drawing is in
`watermark.js` and `crash.js`, which run in the browser and need nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from matplotlib.figure import Figure

from workbook.plots import BLUE, GRAY, GREEN, ORANGE, RED, chart, png

HERE = Path(__file__).parent


class Explainer(anywidget.AnyWidget):
    """A widget in JupyterLab; its still image where no widgets are shown, as in the book."""

    _css = HERE / "explainers.css"
    data = traitlets.Dict().tag(sync=True)

    def __init__(self, title: str, data: dict[str, Any], still: Figure, alt: str) -> None:
        super().__init__(data=data)
        self._alt = {"image/png": {"alt": alt}}
        self._image = {"image/png": png(still), "text/plain": title}

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        widget, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        return {**widget, **self._image}, {**metadata, **self._alt}


def recorded(name: str) -> Any:
    """Return what real queries did when they were recorded: `watermark` or `crash`."""
    return json.loads((HERE / f"{name}.json").read_text())


# ---- The watermark -------------------------------------------------------------------------------

# Seven rows, one in each micro-batch. Their event times in seconds; None is the row to drag.
ARRIVALS = (5, 16, 23, None, 14, 33, 41)
WINDOW = 10
AT_FIRST = {"delay": 10, "second": 26}


class WatermarkExplainer(Explainer):
    _esm = HERE / "watermark.js"


def watermark_explainer() -> WatermarkExplainer:
    """Return the explainer of an event's time and of how long to wait for it."""
    runs = recorded("watermark")
    data = {"arrivals": ARRIVALS, "window": WINDOW, "runs": runs, **AT_FIRST}
    some = (run for run in runs if run["delay"] == AT_FIRST["delay"])
    with_a_drop = next(run for run in some if any(step["dropped"] for step in run["steps"]))
    alt = "Seven rows, the watermark 10 seconds behind the newest, and the closed windows:"
    alt += " one row arrived after its window was closed, and is dropped."
    still = _watermark_still(with_a_drop)
    return WatermarkExplainer("The watermark, to play with", data, still, alt)


def _watermark_still(run: dict[str, Any]) -> Figure:
    """Draw one run: rows in the order of arrival, the watermark, and the windows it has closed."""
    figure, axes = chart("rows, in the order of arrival", "event time in seconds", height=3.6)
    times = [run["second"] if time is None else time for time in ARRIVALS]
    last = len(times)
    for row, step in enumerate(run["steps"], start=1):
        for start, count in step["closed"]:
            axes.fill_between([row, last + 1], start, start + WINDOW, color=GRAY, alpha=0.25)
            text = f"closed: {count} row{'s' * (count != 1)}"
            axes.text(last + 0.95, start + WINDOW / 2, text, ha="right", va="center")
    for row, (second, step) in enumerate(zip(times, run["steps"], strict=True), start=1):
        dropped = step["dropped"]
        color, marker = (RED, "x") if dropped else (BLUE, "o")
        axes.plot(row, second, marker, ms=9, mew=2, color=color)
        name = "dropped" if dropped else "counted"
        axes.text(row, second + 2, name, color=color, ha="center", va="bottom")
    marks = [step["watermark"] for step in run["steps"]]
    axes.step([*range(1, last + 2)], [*marks, marks[-1]], color="black", where="post")
    axes.text(3.05, 13.5, f"watermark: {run['delay']} s behind", va="bottom")
    axes.set(xlim=(0.5, last + 1), ylim=(0, 50), xticks=range(1, last + 1))
    return figure


# ---- The crash -----------------------------------------------------------------------------------

LINES = [f"line {number}" for number in range(1, 6)]  # the first one is an earlier batch's


# The steps of a batch, by the point of the crash: the step's name, its effects, and how a restart
# repairs a kill at this step.
STEPS = {
    "logged": (
        "logged",
        "The lines are in the source's log, on disk. No batch has them yet.",
        "The new query asked the source how far its log goes, and planned the batch.",
    ),
    "staging": (
        "planned",
        "offsets/2 says how far the batch goes. Its tasks write to files that no reader looks at.",
        "offsets/2 is there and commits/2 is not. So Spark ran the batch again, with the same "
        "offsets. What the dead tasks had left was removed.",
    ),
    "staged": (
        "staged",
        "The tasks are done, and all lines are staged. The sink's commit begins.",
        "No record named the staged files. Spark ran the batch again, and they were removed.",
    ),
    "recorded": (
        "recorded",
        "One rename has put the record in place. It says which staged lines go where, and that "
        "batch 2 is done. From now on the batch is in.",
        "Spark ran the batch again. The sink's commit first carried out the record that it found, "
        "then recognized the batch.",
    ),
    "half_applied": (
        "half applied",
        "Readers see the lines of one task, but not yet those of the other.",
        "Spark ran the batch again. The sink's commit first carried out the rest of the record, "
        "then recognized the batch.",
    ),
    "applied": (
        "applied",
        "Readers see all lines, and the staged files are gone. commits/2 is not there yet.",
        "Spark ran the batch again. The sink recognized it, and wrote nothing.",
    ),
    "committed": (
        "committed",
        "commits/2 is there: the batch is done.",
        "There was nothing to repeat.",
    ),
}


class CrashExplainer(Explainer):
    _esm = HERE / "crash.js"


def crash_explainer() -> CrashExplainer:
    """Return the explainer that steps through a micro-batch and kills its query."""
    runs = recorded("crash")
    keys = "name", "happened", "repair"
    texts = (dict(zip(keys, step, strict=True)) for step in STEPS.values())
    data = {"steps": [text | run for text, run in zip(texts, runs, strict=True)], "lines": LINES}
    alt = "Seven steps of a batch. A query killed in the first four has shown one line of five, "
    alt += (
        "then three, and then all. Wherever it is killed, readers see all five after the restart."
    )
    return CrashExplainer("The crash, to play with", data, _crash_still(runs), alt)


def _crash_still(runs: list[dict[str, Any]]) -> Figure:
    """Numbers of lines: where they were when the query was killed, and after the restart."""
    figure, axes = chart("killed when the batch was …", "", height=2.6)
    counts = {
        "in the source's log": (GRAY, [_count(run["killed"]["log"], "port") for run in runs]),
        "staged": (ORANGE, [_count(run["killed"]["sink"], "staged") for run in runs]),
        "seen by readers": (BLUE, [_count(run["killed"]["sink"], "data") for run in runs]),
        "after the restart": (GREEN, [_count(run["restarted"]["sink"], "data") for run in runs]),
    }
    for row, (color, numbers) in enumerate(counts.values()):
        for step, number in enumerate(numbers):
            style = {"color": color, "ha": "center", "va": "center", "fontsize": 14}
            axes.text(step, row, str(number), **style)
    axes.axvline(2.5, color="black", ls="--")
    axes.text(2.5, -0.75, "the record is in place", ha="center")
    axes.set(xlim=(-0.5, len(runs) - 0.5), ylim=(3.6, -0.6))
    axes.set_xticks(range(len(runs)), [name for name, *_ in STEPS.values()])
    axes.set_yticks(range(len(counts)), list(counts))
    axes.grid(visible=False)
    return figure


def _count(files: dict[str, Any], kind: str) -> int:
    return sum(len(lines) for name, lines in files.items() if name.startswith(kind))
