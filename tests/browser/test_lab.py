"""`make lab` as a person meets it: notebooks run from top to bottom in a real browser."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from spark_connector_tests.query_process import wait_until
from tests.conftest import first_of_free_ports
from workbook.rerun import KERNEL

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PICTURES = ROOT / ".work" / "browser"
TOKEN = "a-test-is-reading"
# nbval runs all; these, as people see them
NOTEBOOKS = ["00_start_here", pytest.param("04_network_source", marks=pytest.mark.soak)]

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed (`bash .ci/packages` installs it on Debian)"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab that `make lab` has started."""
    port, home = first_of_free_ports(), tmp_path_factory.mktemp("lab")
    settings = home / "@jupyterlab" / "docmanager-extension"
    settings.mkdir(parents=True)
    # The notebooks' stored outputs are the project's: the browser must not save over them.
    (settings / "plugin.jupyterlab-settings").write_text('{"autosave": false}')
    options = f"--no-browser --port={port} --IdentityProvider.token={TOKEN} --expose-app-in-browser"
    options += " --ContentsManager.allow_hidden=True"  # notebooks of a test are in .work
    with open(home / "server.log", "wb") as log:
        server = subprocess.Popen(
            ["make", "lab", f"LAB_OPTIONS={options}"],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=os.environ
            | {"JUPYTERLAB_SETTINGS_DIR": str(home), "JUPYTER_RUNTIME_DIR": str(home)},
        )
    try:
        wait_until(lambda: _answers(port), 120, f"an answer of JupyterLab on port {port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)  # the server ends its kernels, and they their JVMs
        server.wait(timeout=60)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=5) as answer:
            return "version" in json.load(answer)
    except OSError:
        return False


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def page(lab: str, chromium: Any) -> Any:
    return chromium.new_page(viewport={"width": 1280, "height": 1000})


RUN_ALL = """async () => {
    const app = window.jupyterapp;
    await app.commands.execute('notebook:run-all-cells');
    const cells = Array.from(app.shell.currentWidget.content.model.cells);
    return cells.filter(cell => cell.type === 'code').map(cell => cell.toJSON());
}"""
FOLDED = """() => window.jupyterapp.shell.currentWidget.content.widgets
    .filter(cell => cell.model.type === 'code').map(cell => cell.outputHidden)"""
# Scroll to a code cell; how many pixels of its outputs there are to see.
HEIGHT_OF_OUTPUTS = """async place => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    const cell = notebook.widgets.filter(cell => cell.model.type === 'code')[place];
    await notebook.scrollToItem(notebook.widgets.indexOf(cell));
    await cell.ready;
    return cell.outputArea.node.offsetHeight;
}"""
PLACEHOLDERS = """() => Array.from(
    document.querySelectorAll('.jp-OutputPlaceholder .jp-PlaceholderText')
).filter(text => text.offsetParent).map(text => text.textContent)"""
KERNEL_IS_IDLE = """() => {
    const panel = window.jupyterapp && window.jupyterapp.shell.currentWidget;
    const session = panel && panel.sessionContext;
    const kernel = session && session.session && session.session.kernel;
    return Boolean(kernel && kernel.status === 'idle');
}"""


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs_without_stderr(lab: str, page: object, name: str) -> None:
    page.set_default_timeout(180_000)
    page.goto(f"{lab}/lab/tree/notebooks/{name}.ipynb?token={TOKEN}&reset")
    page.wait_for_function(KERNEL_IS_IDLE)
    folded = page.evaluate(FOLDED)
    question = _with_an_answer(name)
    assert folded == _folded_in_the_file(name)
    assert folded[question]
    assert page.evaluate(HEIGHT_OF_OUTPUTS, question) == 0, "the answer can be seen before"
    assert page.evaluate(PLACEHOLDERS) == [], "a folded output shows its first line"
    cells = page.evaluate(RUN_ALL)
    assert not any(page.evaluate(FOLDED))
    assert page.evaluate(HEIGHT_OF_OUTPUTS, question) > 0, "the answer cannot be seen afterwards"
    keep_a_picture(page, name)

    outputs = [output for cell in cells for output in cell["outputs"]]
    errors = [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert errors == []
    assert all(cell["execution_count"] for cell in cells), "a cell did not run"
    assert any("image/png" in output.get("data", {}) for output in outputs), "no plot was drawn"


def test_explainers_work_in_the_lab(lab: str, page: object) -> None:
    new = nbformat.v4
    lines = "from workbook.explainers import crash_explainer, watermark_explainer"
    cells = [
        new.new_code_cell(f"{lines}\n{name}()")
        for name in ("watermark_explainer", "crash_explainer")
    ]
    PICTURES.mkdir(parents=True, exist_ok=True)
    notebook = new.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})
    nbformat.write(notebook, PICTURES / "explainers.ipynb")
    page.set_default_timeout(180_000)
    page.goto(f"{lab}/lab/tree/.work/browser/explainers.ipynb?token={TOKEN}&reset")
    page.wait_for_function(KERNEL_IS_IDLE)
    page.evaluate(RUN_ALL)
    page.locator("input[name=second]").press("End")
    assert "second 48" in page.text_content(".explainer .told")
    page.click("text=kill -9")
    assert page.locator(".places.killed").count() == 1
    keep_a_picture(page, "explainers")


def _code_cells(name: str) -> list[nbformat.NotebookNode]:
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _folded_in_the_file(name: str) -> list[bool]:
    cells = _code_cells(name)
    return [cell.metadata.get("jupyter", {}).get("outputs_hidden", False) for cell in cells]


def _with_an_answer(name: str) -> int:
    """The place of the first code cell that has an output and is folded."""
    folded = zip(_code_cells(name), _folded_in_the_file(name), strict=True)
    return next(at for at, (cell, hidden) in enumerate(folded) if hidden and cell.outputs)


def keep_a_picture(page: object, name: str) -> None:
    """For people: what the browser showed is in .work/browser/ after the test."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(PICTURES / f"{name}.png"))
