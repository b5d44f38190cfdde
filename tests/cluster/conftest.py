"""A cluster for all tests of a process, and what must not be left of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark
import pytest

from workbook.cluster import Cluster

SPARKS_OWN = Path(pyspark.__file__).parent / "work"  # where Spark's workers write unless told


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    was_there = SPARKS_OWN.exists()
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("PYTHONPATH", raising=False)  # workers know nothing of the project
        running = Cluster(folder)
    with running:
        yield running
    for log in folder.glob("*.log"):
        assert "Unable to use shared archive" not in log.read_text(), f"{log.name}: a slow start"
    assert processes_of(folder) == []
    assert was_there or not SPARKS_OWN.exists(), "left in site-packages"


def processes_of(folder: Path) -> list[str]:
    """The command lines that have to do with a folder."""
    found = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    return [words for words in found if str(folder) in words]
