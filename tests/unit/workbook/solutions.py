"""The solutions of the exercises, as the notebooks store them, and wrong answers made of them."""

from __future__ import annotations

import ast
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbook.checks.verdict import NO_ANSWER

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"


def names_at(exercise: str, old: str = "", new: str = "") -> dict[str, Any]:
    """Return what a notebook has defined after a solution, which is the `answer`.

    Args:
        exercise: such as `09_1`.
        old: a text in the solution, to be replaced by `new`, which makes the answer wrong.
    """
    names: dict[str, Any] = {"__name__": "__main__", "verdict": NO_ANSWER, "answer": None}
    [file] = NOTEBOOKS.glob(f"{exercise[:2]}_*.ipynb")
    cells = [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]
    for text in ("".join(cell["source"]) for cell in cells):
        is_last = f"the_solution(check_{exercise})" in text
        if is_last:
            assert old in text, f"{exercise} has no {old!r}"
            text = text.replace(old, new) if old else text
        nodes = ast.parse(text).body
        for node in nodes:
            if _defines(node, text.startswith("# Solution")):
                with suppress(NameError, OSError, ImportError):  # only a running notebook has that
                    exec(compile(ast.Module([node], []), str(file), "exec"), names)
        if is_last:
            last = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)]
            return names | {"answer": names["solution" if "\nsolution = " in text else last[-1]]}
    raise LookupError(f"{file.name} has no solution of {exercise}")


def answer_of(exercise: str, old: str = "", new: str = "") -> Any:
    """Return the solution itself, or a wrong answer made of it; see `names_at`."""
    return names_at(exercise, old, new)["answer"]


def _defines(node: ast.stmt, in_solution: bool) -> bool:
    """Whether a statement only defines a name, or a constant."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return in_solution or node.targets[0].id.isupper()
    return isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef)
