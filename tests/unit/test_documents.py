"""The documents name what is there: links, notebooks, commands, files, functions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import tutorial_pkg

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "data" / "README.md",
]


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


COMMANDS = re.findall(r"^([a-z-]+):.* ## ", (ROOT / "Makefile").read_text(), re.M)
WITH_COMMANDS = [
    *PAGES,
    ROOT / ".ci" / "run",
    ROOT / ".github" / "workflows" / "tests.yml",
    ROOT / ".pre-commit-config.yaml",
]


@pytest.mark.parametrize("file", WITH_COMMANDS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_make_command_exists(file: Path) -> None:
    named = re.findall(r"(?:^\s*|`|: )make(?: [A-Z]+=\S+)* ([a-z-]+)", file.read_text(), re.M)
    assert [command for command in named if command not in COMMANDS] == []


def test_the_readme_names_every_command_that_a_user_types() -> None:
    readme = (ROOT / "README.md").read_text()
    for command in ("lab", "test", "check", "demo", "doctor", "book", "bench", "clean", "help"):
        assert f"make {command}" in readme, command


def test_hosted_tests_and_hooks_run_the_makefile() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    steps = workflow["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["make test"]
    (hooks,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    entries = {hook["id"]: hook["entry"] for hook in hooks["hooks"]}
    assert (hooks["repo"], entries["style"], entries["check"]) == (
        "local",
        "make style",
        "make check",
    )


PACKAGE = ROOT / "tutorial_pkg"


def test_contributing_names_files_that_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text().replace("/NAME/", "/kafka/")
    named = re.findall(
        r"(?:^    |`)((?:\w+/)*\w+\.(?:py|toml|yml|cfg|md)|tests/[\w/]+)\b", page, re.M
    )
    assert len(named) > 50
    missing = [path for path in named if not any((at / path).exists() for at in (ROOT, PACKAGE))]
    assert missing == []


def test_contributing_names_functions_that_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    steps = re.findall(r"^    ([\w/]+\.py) +([\w.]+)", page, re.M)
    steps += re.findall(r"`([\w/]+\.py)` \(`(\w+)`\)", page)
    assert len(steps) > 12
    for path, names in steps:
        for name in names.split("."):
            assert re.search(rf"(class|def) {name}\b", (PACKAGE / path).read_text()), (path, name)


def test_the_changelog_begins_with_this_version() -> None:
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert versions[0] == tutorial_pkg.__version__


def test_the_api_page_has_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    listed = re.findall(r"^\.\. auto(?:class|function):: tutorial_pkg\.(\w+)$", page, re.M)
    assert sorted(listed) == sorted(tutorial_pkg.__all__)
