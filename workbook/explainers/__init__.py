"""Two pictures to play with: the watermark, and the crash.

They show what real queries did, not a model of it. `python -m tests.integration.record_explainers`
runs these queries. It stores the results in `watermark.json` and `crash.json`, and images for pages
without widgets. The drawing is in `watermark.js` and `crash.js`, which run in the browser alone.
"""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import anywidget
import traitlets

HERE = Path(__file__).parent


class Explainer(anywidget.AnyWidget):
    """A widget in JupyterLab; its still image where no widgets are shown, as in the book."""

    _css = HERE / "explainers.css"
    data = traitlets.Dict().tag(sync=True)

    def __init__(self, name: str, alt: str, data: dict[str, Any]) -> None:
        super().__init__(data=data)
        self._alt = {"image/png": {"alt": alt}}
        image = b64encode((HERE / f"{name}.png").read_bytes()).decode()
        self._image = {"image/png": image, "text/plain": f"The {name}, to play with"}

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
    alt = "Seven rows, the watermark 10 seconds behind the newest, and the closed windows:"
    alt += " one row arrived after its window was closed, and is dropped."
    return WatermarkExplainer("watermark", alt, data)


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
    alt += "then three, and then all. Wherever it is killed, readers see all five after the "
    alt += "restart."
    return CrashExplainer("crash", alt, data)
