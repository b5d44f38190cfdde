"""`make book`: all notebooks as pages, a search, and nothing that a page loads from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
def test_book_is_complete_without_network(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "-c", "docs", ".", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr

    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        page = (tmp_path / "notebooks" / f"{notebook.stem}.html").read_text()
        assert "What you learned" in page
        assert f"<h1>{notebook.stem[:2]} – " in page
        assert page.count("<img ") == pictures_in(notebook), "stills of explainers too"
        loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', page)
        assert loaded == [], "a page must not load anything from the network"
    assert (tmp_path / "docs" / "index.html").is_file()
    assert "micro" in (tmp_path / "searchindex.js").read_text()


def pictures_in(notebook: Path) -> int:
    cells = json.loads(notebook.read_text())["cells"]
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    return sum("image/png" in data or "image/svg+xml" in data for data in outputs)
