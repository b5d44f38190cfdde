"""What both explainers are: data, a script for the browser, and a still image."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

HERE = Path(__file__).parent


class Explainer(anywidget.AnyWidget):
    """A widget in JupyterLab; where no widgets are shown, as in the book, its still image."""

    _css = HERE / "explainers.css"
    data = traitlets.Dict().tag(sync=True)

    def __init__(self, title: str, data: dict[str, Any], still: Figure) -> None:
        super().__init__(data=data)
        self._title, self._still = title, _png(still)

    def _repr_mimebundle_(self, **wanted: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        widget, metadata = super()._repr_mimebundle_(**wanted) or ({}, {})
        return {**widget, "image/png": self._still, "text/plain": self._title}, metadata


def _png(figure: Figure) -> str:
    image = BytesIO()
    figure.savefig(image, format="png")
    plt.close(figure)
    return base64.b64encode(image.getvalue()).decode()


def stored(name: str) -> Any:
    """What real runs gave, when they were recorded."""
    return json.loads((HERE / name).read_text())


def store(name: str, runs: Iterable[dict[str, Any]]) -> None:
    """One run a line, so that a change can be read."""
    (HERE / name).write_text("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n")
