"""Run notebooks and store their outputs: `python -m workbook.rerun notebooks/*.ipynb`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CELL_SECONDS = 120
ROOT = Path(__file__).parents[1]
WIDGET = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
QUESTION = "**Predict:**"
MARKS = re.compile(r"\*\*Predict:\*\*|What just happened\?|## ")


def rerun(notebook: Path) -> None:
    """Execute a notebook where it stands and keep the outputs, without times of execution.

    Raises `RuntimeError` when a cell wrote to stderr: a reader should never see that.
    """
    content = nbformat.read(notebook, as_version=4)
    folder = {"metadata": {"path": str(notebook.parent)}}
    NotebookClient(content, timeout=CELL_SECONDS, resources=folder, record_timing=False).execute()
    for cell in content.cells:
        cell.metadata.pop("mystnb", None)
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                raise RuntimeError(f"{notebook.name} wrote to stderr: {output.text[:300]}")
            output.get("data", {}).pop(WIDGET, None)  # without its kernel it shows nothing
            if "text" in output:
                output["text"] = output["text"].replace(f"{ROOT}/", "")  # of no use to a reader
            if alt := output.get("metadata", {}).get("image/png", {}).get("alt"):
                cell.metadata["mystnb"] = {"image": {"alt": alt}}  # where the book looks for it
    hide_answers(content)
    # The version of the last Python that ran it does not belong to the notebook.
    content.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    nbformat.write(content, notebook)


def hide_answers(notebook: nbformat.NotebookNode) -> None:
    """Fold the stored outputs that would give a prediction away.

    These are the outputs between a **Predict:** and the next "What just happened?" or heading. They
    stay in the file, where nbval compares them. JupyterLab shows them when you run the cell, and
    the book when you click on them.
    """
    hidden = False
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for mark in MARKS.findall(cell.source):
                hidden = mark == QUESTION
        else:
            _fold(cell, hidden and bool(cell.outputs))


def _fold(cell: nbformat.NotebookNode, hidden: bool) -> None:
    tags = [tag for tag in cell.metadata.pop("tags", []) if tag != "hide-output"]
    jupyter = cell.metadata.pop("jupyter", {})
    jupyter.pop("outputs_hidden", None)
    if hidden:
        tags, jupyter["outputs_hidden"] = [*tags, "hide-output"], True
    cell.metadata |= {"tags": tags} if tags else {}
    cell.metadata |= {"jupyter": jupyter} if jupyter else {}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, flush=True)
        rerun(Path(name))
