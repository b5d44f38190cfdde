"""Run notebooks from clean kernels and store what they print: `make notebooks`."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CELL_SECONDS = 120


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
    # The version of the Python that ran it last is no part of the notebook.
    content.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    nbformat.write(content, notebook)


KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, flush=True)
        rerun(Path(name))
