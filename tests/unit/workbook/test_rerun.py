"""Answers are folded away from the question to its explanation, and nowhere else."""

from __future__ import annotations

from copy import deepcopy

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from workbook.rerun import hide_answers


def hidden(notebook: NotebookNode) -> list[bool]:
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    folded = [cell.metadata.get("jupyter", {}).get("outputs_hidden", False) for cell in code]
    in_the_book = ["hide-output" in cell.metadata.get("tags", []) for cell in code]
    assert folded == in_the_book
    return folded


def test_from_the_question_to_its_explanation() -> None:
    notebook = new_notebook(
        cells=[
            new_code_cell("'before'", metadata={"tags": ["hide-output"]}),
            new_markdown_cell("**Predict:** what comes?"),
            new_code_cell("'the answer'", metadata={"tags": ["nbval-ignore-output"]}),
            new_markdown_cell("Now run this, too."),
            new_code_cell("'more of it'"),
            new_markdown_cell("**What just happened?** That. **Predict:** and now?"),
            new_code_cell("'the next answer'"),
            new_markdown_cell("## Another matter"),
            new_code_cell("'after'", metadata={"jupyter": {"source_hidden": True}}),
        ]
    )
    hide_answers(notebook)
    assert hidden(notebook) == [False, True, True, True, False]
    assert notebook.cells[2].metadata["tags"] == ["nbval-ignore-output", "hide-output"]
    assert notebook.cells[-1].metadata["jupyter"] == {"source_hidden": True}
    again = deepcopy(notebook)
    hide_answers(again)
    assert again == notebook
