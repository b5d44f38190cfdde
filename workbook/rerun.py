"""Run notebooks and store their outputs: `python -m workbook.rerun notebooks/*.ipynb`."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CELL_SECONDS = 120
ROOT = Path(__file__).parents[1]
WIDGET = "application/vnd.jupyter.widget-view+json"
QUESTION, ANSWER = "**Predict:**", "What just happened?"


def rerun(notebook: Path) -> None:
    """Execute a notebook where it stands and keep the outputs, without times of execution.

    Raises `RuntimeError` when a cell wrote to stderr: a reader should never see that.
    """
    content = nbformat.read(notebook, as_version=4)
    folder = {"metadata": {"path": str(notebook.parent)}}
    NotebookClient(content, timeout=CELL_SECONDS, resources=folder, record_timing=False).execute()
    for cell in content.cells:
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                raise RuntimeError(f"{notebook.name} wrote to stderr: {output.text[:300]}")
            output.get("data", {}).pop(WIDGET, None)  # without its kernel it shows nothing
            if "text" in output:
                output["text"] = output["text"].replace(f"{ROOT}/", "")  # of no use to a reader
    hide_answers(content)
    name_pictures(content)
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
            hidden = _hides_what_follows(cell.source, hidden)
        else:
            _fold(cell, hidden and bool(cell.outputs))


def name_pictures(notebook: nbformat.NotebookNode) -> None:
    """Copy each picture's alternative text to where the book looks for it: the cell's metadata."""
    for cell in notebook.cells:
        cell.metadata.pop("mystnb", None)
        for output in cell.get("outputs", []):
            if alt := output.get("metadata", {}).get("image/png", {}).get("alt"):
                cell.metadata["mystnb"] = {"image": {"alt": alt}}


def _hides_what_follows(text: str, hidden: bool) -> bool:
    """Whether answers are hidden after this text: the last of its marks decides."""
    asked = text.rfind(QUESTION)
    told = max(text.rfind(ANSWER), *(text.rfind(f"{'#' * level} ") for level in (2, 3)))
    return hidden if asked == told else asked > told


def _fold(cell: nbformat.NotebookNode, hidden: bool) -> None:
    tags = [tag for tag in cell.metadata.get("tags", []) if tag != "hide-output"]
    jupyter = {k: v for k, v in cell.metadata.get("jupyter", {}).items() if k != "outputs_hidden"}
    if hidden:
        tags, jupyter = [*tags, "hide-output"], {**jupyter, "outputs_hidden": True}
    for key, value in (("tags", tags), ("jupyter", jupyter)):
        cell.metadata.pop(key, None)
        if value:
            cell.metadata[key] = value


KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, flush=True)
        rerun(Path(name))
