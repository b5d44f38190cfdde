"""The form of the notebooks: budgets, stored outputs, links that lead somewhere, no stderr."""

from __future__ import annotations

import ast
import re
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest

from workbook.rerun import WIDGET, hide_answers

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MOST_LINES, MOST_LINES_OF_THE_CONNECTOR = 14, 40
FOLDED_ANSWER = "<details><summary><b>What just happened?</b></summary>"
MOST_CELLS, MOST_MINUTES, MOST_MINUTES_OF_THE_CAPSTONE = 32, 40, 180
MOST_PREDICTIONS, MOST_HELPERS = 4, 8
MOST_CHARACTERS = 86  # of a line of code: the width of the book's column
PUBLIC = {"spark_connector_tests", "tutorial_pkg", "workbook"} | {
    f"tutorial_pkg.{name}" for name in ("builder", "observe", "session", "state")
}
MOST_LINES_OF_A_SOLUTION = 24  # it is folded away: nobody reads it in passing

Cell = nbformat.NotebookNode


def code(notebook: nbformat.NotebookNode) -> list[Cell]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(notebook: nbformat.NotebookNode) -> str:
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def lines_of(cell: Cell) -> int:
    return sum(bool(line.strip()) for line in cell.source.splitlines())


def is_solution(cell: Cell) -> bool:
    return "solution" in cell.metadata.get("tags", [])


def is_broken_on_purpose(cell: Cell) -> bool:
    """It shows a report on what is broken; nothing else may have a ✗."""
    return "broken-on-purpose" in cell.metadata.get("tags", [])


def over_budget(notebook: nbformat.NotebookNode) -> list[str]:
    """Code cells that are too long; one connector class may be longer than the others."""
    long = [cell for cell in code(notebook) if lines_of(cell) > MOST_LINES]
    connector = re.compile(r"^class \w+\((DataSource\w*|StatefulProcessor)\)", re.M)
    connectors = [cell for cell in long if connector.search(cell.source)]
    allowed = [cell for cell in connectors[:1] if lines_of(cell) <= MOST_LINES_OF_THE_CONNECTOR]
    allowed += [
        cell for cell in long if is_solution(cell) and lines_of(cell) <= MOST_LINES_OF_A_SOLUTION
    ]
    return [cell.source for cell in long if cell not in allowed]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> nbformat.NotebookNode:
    return nbformat.read(request.param, as_version=4)


def test_they_are_numbered_in_reading_order_from_00_on() -> None:
    assert [int(path.stem[:2]) for path in NOTEBOOKS] == list(range(len(NOTEBOOKS)))


def test_within_budget(notebook: nbformat.NotebookNode) -> None:
    assert len(notebook.cells) <= MOST_CELLS
    assert over_budget(notebook) == []
    lines = [line for cell in code(notebook) for line in cell.source.splitlines()]
    assert [line for line in lines if len(line) > MOST_CHARACTERS] == []


def test_every_code_cell_was_run_in_order(notebook: nbformat.NotebookNode) -> None:
    """Otherwise nbval would not compare them."""
    counts = [cell.execution_count for cell in code(notebook)]
    assert counts == list(range(1, len(counts) + 1))


def test_answers_are_folded_away(notebook: nbformat.NotebookNode) -> None:
    folded = deepcopy(notebook)
    hide_answers(folded)
    assert folded == notebook, "run `python -m workbook.rerun notebooks/*.ipynb`"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_next_one_is_next(path: Path) -> None:
    named = re.findall(r"\*\*Next:\*\* \[(\d\d)[^]]*\]\((\d\d)_", path.read_text())
    following = next((p.stem[:2] for p in NOTEBOOKS[NOTEBOOKS.index(path) + 1 :]), None)
    assert set(named) <= {(following, following)}


def test_links_lead_somewhere(notebook: nbformat.NotebookNode) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", texts(notebook))
    targets = [target.split("#")[0] for target in links if "://" not in target]
    assert [target for target in targets if not (ROOT / "notebooks" / target).exists()] == []


def test_outputs_are_clean(notebook: nbformat.NotebookNode) -> None:
    outputs = [output for cell in code(notebook) for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    content = [cell.outputs for cell in code(notebook) if not is_broken_on_purpose(cell)]
    assert "✗" not in str(content), "a check or the doctor is not content"
    assert all("✗" in str(cell.outputs) for cell in code(notebook) if is_broken_on_purpose(cell))
    # A path of the machine that ran it is of no use to a reader.
    assert not re.search(r"/(home|Users|root|tmp)/", str(outputs))
    assert any("image/png" in output.get("data", {}) for output in outputs), "it has no plot"
    assert WIDGET not in str(outputs), "a widget shows its still image without a kernel"


def test_the_arc(notebook: nbformat.NotebookNode) -> None:
    assert notebook.cells[0].source.startswith("# ")
    time = re.search(r"\*Time: (\d+) minutes\. Read first: ", notebook.cells[0].source)
    capstone = "capstone" in notebook.cells[0].source.lower()
    most = MOST_MINUTES_OF_THE_CAPSTONE if capstone else MOST_MINUTES
    assert time is not None and int(time[1]) <= most
    text = "\n".join(cell.source for cell in notebook.cells)
    for part in ("**Predict:**", "What just happened?", "## What you learned", "## Exercise"):
        assert part in text, part
    solutions = [cell for cell in code(notebook) if is_solution(cell)]
    assert len(solutions) == text.count("None  # Your code here") >= 1
    assert all(cell.metadata["jupyter"]["source_hidden"] for cell in solutions)
    # Otherwise the solution would count as the learner's: the_solution(check_04_1)(solution)
    assert not re.search(r"the_solution\(check\w*\(", text)
    assert not [c for c in code(notebook) if "raises-exception" in c.metadata.get("tags", [])]


def test_predictions_stay_secret(notebook: nbformat.NotebookNode) -> None:
    """Each prediction has choices, and each explanation is folded."""
    text = texts(notebook)
    predictions = re.findall(r"\*\*Predict:\*\*.*?(?=\n\n|\Z)", text, re.S)
    assert 1 <= len(predictions) <= MOST_PREDICTIONS
    assert all("*(a)*" in each and "*(b)*" in each for each in predictions), predictions
    assert text.count("What just happened?") == text.count(FOLDED_ANSWER)
    assert text.count("<details>") == text.count("</details>")


def test_code_reads_like_code_at_home(notebook: nbformat.NotebookNode) -> None:
    sources = [cell.source for cell in code(notebook)]
    assert not [source for source in sources if re.search(r"^_ = ", source, re.M)]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    helpers = {
        alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "workbook"
        for alias in node.names
        if not alias.name.startswith("check_") and alias.name != "the_solution"
    }
    assert len(helpers) <= MOST_HELPERS, helpers


def test_only_public_names_are_imported(notebook: nbformat.NotebookNode) -> None:
    """See `workbook/__init__.py`."""
    nodes = [node for cell in code(notebook) for node in ast.walk(ast.parse(cell.source))]
    modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    ours = [m for m in modules if m.split(".")[0] in {name.split(".")[0] for name in PUBLIC}]
    assert [module for module in ours if module not in PUBLIC] == []
