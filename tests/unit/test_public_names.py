"""The public names: known to editors, and imported on first use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import tutorial_pkg


def test_editors_see_the_public_names() -> None:
    source = Path(tutorial_pkg.__file__).read_text()
    block = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    seen = {name.name: node.module for node in block.body for name in node.names}
    modules = {name: f"tutorial_pkg.{module}" for name, module in tutorial_pkg._MODULES.items()}
    assert seen == modules
    assert all(hasattr(tutorial_pkg, name) for name in tutorial_pkg.__all__)
    assert set(tutorial_pkg.__all__) <= set(dir(tutorial_pkg))
    docs = "".join(str(getattr(tutorial_pkg, name).__doc__) for name in tutorial_pkg.__all__)
    assert "{options}" not in docs  # `documented` has put the table there


def test_connector_imports_no_other_one() -> None:
    code = (
        "import sys, tutorial_pkg.connectors.file_lines\n"
        "print(*(name for name in sys.modules if name.startswith('tutorial_pkg.')), 'asyncio' in "
        "sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *imported, with_asyncio = done.stdout.split()
    others = {"kafka", "nats", "postgres", "network_lines", "cpu_log"}
    assert not others & {name.split(".")[2] for name in imported if "connectors." in name}
    assert "tutorial_pkg.session.start" not in imported
    assert with_asyncio == "False"


def test_sources_of_lines_import_no_arrow() -> None:
    names = "FileLinesDataSource", "NetworkLinesDataSource"
    made = "; ".join(f"tutorial_pkg.{name}({{'path': '.'}}).schema()" for name in names)
    code = f"import sys, tutorial_pkg; {made}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "pyarrow"} & set(done.stdout.split())


def test_rare_packages_are_imported_late() -> None:
    ours = ", ".join(f"tutorial_pkg.connectors.{name}" for name in ("cpu_log", "network_lines"))
    code = f"import sys, tutorial_pkg.builder, {ours}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pyarrow.compute", "ssl"} & set(done.stdout.split())
