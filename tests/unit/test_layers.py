"""Imports run one way: from the upper layers of the package to the lower ones, and in no circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import spark_connector_tests
import tutorial_pkg

PACKAGE = Path(tutorial_pkg.__file__).parent
# As CONTRIBUTING.md has them, from the lowest on: each imports from itself and those before it.
LAYERS = (
    ("core",),
    ("durable_log",),
    ("builder",),
    ("connectors", "observe", "state"),
    ("session",),
    ("",),  # the public names
    ("__main__",),
)
HEIGHT = {room: height for height, rooms in enumerate(LAYERS) for room in rooms}


def name_of(file: Path) -> str:
    """`core.disk` for `tutorial_pkg/core/disk.py`, and an empty text for the package itself."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(file): file for file in PACKAGE.rglob("*.py")}


def imports_of(name: str) -> Iterator[str]:
    """The modules of this package that a module names, at its top or later."""
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            root, _, module = node.module.partition(".")
            for imported in node.names if root == PACKAGE.name else ():
                below = f"{module}.{imported.name}".lstrip(".")
                yield below if below in MODULES else module


IMPORTS = {name: set(imports_of(name)) for name in MODULES}


def room_of(name: str) -> str:
    return name.partition(".")[0]


def test_each_room_has_its_layer() -> None:
    assert {room_of(name) for name in MODULES} == HEIGHT.keys()


@pytest.mark.parametrize("folder", sorted({file.parent for file in MODULES.values()} - {PACKAGE}))
def test_docstring_of_a_folder_names_its_files(folder: Path) -> None:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    files = {file.stem for file in folder.glob("*.py")} - {"__init__"}
    assert files <= set(re.findall(r"\w+", text))


def test_imports_have_no_circle() -> None:
    try:
        TopologicalSorter(IMPORTS).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_imports_run_one_way() -> None:
    """Rooms beside each other don't import one another: no connector knows its observers."""
    upwards = [
        f"{name} imports {imported}"
        for name in MODULES
        for imported in IMPORTS[name]
        if room_of(imported) != room_of(name) and HEIGHT[room_of(imported)] >= HEIGHT[room_of(name)]
    ]
    assert upwards == []


def test_connectors_use_only_public_names() -> None:
    """`connectors.file_lines` has names for others; `connectors.file_lines.offset` is its own."""
    inside = [
        f"{name} imports {imported}"
        for name in MODULES
        for imported in IMPORTS[name]
        if room_of(name) == "connectors"
        and imported.count(".") > {"builder": 0, "connectors": 1}.get(room_of(imported), 9)
        and name.split(".")[:2] != imported.split(".")[:2]
    ]
    assert inside == []


def test_kit_imports_nothing_of_this_package() -> None:
    files = Path(spark_connector_tests.__file__).parent.glob("*.py")
    assert [
        file.name
        for file in files
        if re.search(r"^\s*(from|import) tutorial_pkg", file.read_text(), re.M)
    ] == []
