"""The README and the pages in docs/: every link and picture is there, every notebook is listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tutorial_pkg

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "data" / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s#]+)", page.read_text())
    inside = [target for target in targets if "://" not in target]
    assert [target for target in inside if not (page.parent / target).exists()] == []


def test_the_readme_lists_every_notebook_with_its_minutes() -> None:
    readme = (ROOT / "README.md").read_text()
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        minutes = re.search(r"\*Time: (\d+) minutes", notebook.read_text()).group(1)
        assert re.search(rf"\(notebooks/{notebook.name}\) \| {minutes} \|", readme), notebook.name


def test_the_readme_names_every_command_that_a_user_types() -> None:
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    for command in ("lab", "test", "check", "demo", "doctor", "book", "bench", "clean", "help"):
        assert f"make {command}" in readme, command
        assert re.search(rf"^{command}:.* ## ", makefile, re.M), command


def test_the_api_page_has_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    listed = re.findall(r"^\.\. auto\w+:: tutorial_pkg\.(\w+)$", page, re.M)
    assert sorted(listed) == sorted(tutorial_pkg.__all__)
