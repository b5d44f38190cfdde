"""The explainers as a person meets them: drawn by a real browser, dragged, stepped through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.test_lab import chromium, pytestmark
from tests.browser.test_lab import keep_a_picture as keep
from workbook.explainers import HERE, Explainer, crash_explainer, watermark_explainer

LIGHT, DARK = "true", "false"  # what JupyterLab says of its theme
PAGE = """<!doctype html><meta charset="utf-8"><style>%s body { background: %s }</style>
<body data-jp-theme-light="%s"><div id="here"></div><script type="module">%s</script>"""
DRAW = "render({ model: { get: () => (%s) }, el: document.getElementById('here') });"

__all__ = ["chromium", "pytestmark"]  # the fixture, and when it cannot be had


@pytest.fixture(scope="module")
def page(chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(viewport={"width": 900, "height": 600}, offline=True)
    page = context.new_page()
    errors: list[object] = []
    page.on("pageerror", lambda error: errors.append(error))
    yield page
    context.close()
    assert errors == []


def show(page: Any, explainer: Explainer, name: str, theme: str = LIGHT) -> None:
    """Draw what JupyterLab would, and keep a picture for people in .work/browser/."""
    script = (HERE / f"{name}.js").read_text()
    drawn = script.replace("export default { render };", DRAW % json.dumps(explainer.data))
    assert drawn != script
    css = (HERE / "explainers.css").read_text()
    page.set_content(PAGE % (css, "white" if theme == LIGHT else "#111111", theme, drawn))
    page.wait_for_selector(".told:not(:empty)")


def told(page: Any) -> str:
    return page.text_content(".told")


def drag(page: Any, grip: str, up: float) -> None:
    """Take it with the mouse and move it up so many pixels."""
    box = page.locator(f"[data-grip={grip}]").last.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - up, steps=5)
    page.mouse.up()


def verdicts(page: Any) -> list[str]:
    return page.locator("[data-row]").all_text_contents()


def test_dragging_an_event_moves_the_watermark(page: Any) -> None:
    show(page, watermark_explainer(), "watermark")
    keep(page, "watermark")
    assert verdicts(page).count("dropped") == 0
    drag(page, "second", up=150)
    assert "second 48" in told(page)
    assert verdicts(page)[4] == "dropped"
    keep(page, "watermark-dragged")
    drag(page, "second", up=-400)
    assert "second 3" in told(page) and verdicts(page)[3] == "dropped"


def test_choices_are_drawn_as_recorded(page: Any) -> None:
    explainer = watermark_explainer()
    show(page, explainer, "watermark")
    for run in explainer.data["runs"][::5]:
        for name in ("delay", "second"):
            place = sorted({each[name] for each in explainer.data["runs"]}).index(run[name])
            page.locator(f"input[name={name}]").fill(str(place))
        dropped = [step["dropped"] for step in run["steps"]]
        assert [name == "dropped" for name in verdicts(page)] == dropped
        closed = sum(len(step["closed"]) for step in run["steps"])
        assert page.locator("rect.closed").count() == closed


def test_crash_is_stepped_through(page: Any) -> None:
    explainer = crash_explainer()
    show(page, explainer, "crash")
    keep(page, "crash")
    for number, step in enumerate(explainer.data["steps"], start=1):
        page.click(f"text={number} {step['name']}")
        assert told(page) == step["happened"]
        assert page.is_disabled("text=restart")
        page.click("text=kill -9")
        assert "is dead" in told(page)
        keep(page, f"crash-{number}-killed")
        page.click("button:has-text('restart')")
        assert step["repair"] in told(page)
        assert page.text_content(".account").endswith("sees 5 of 5 lines. Lost: 0. Twice: 0.")
    keep(page, "crash-restarted")


def test_crash_works_by_keyboard_in_the_dark(page: Any) -> None:
    show(page, crash_explainer(), "crash", DARK)
    page.keyboard.press("Tab")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.text_content("[aria-current=step]") == "4 recorded"
    keep(page, "crash-dark")
    page.focus("text=kill -9")
    page.keyboard.press("Enter")
    assert "is dead" in told(page)
