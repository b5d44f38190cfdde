"""The folder that Spark's Python processes start from without the zipped PySpark."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark
import pytest

from tutorial_pkg.session.spark_home import spark_home

INSTALLED = Path(pyspark.__file__).parent


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)


def test_it_holds_all_of_spark_but_the_zip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    home = spark_home()
    assert home is not None
    assert {entry.name for entry in INSTALLED.iterdir()} - {e.name for e in home.iterdir()} == {
        "python"
    }
    assert (home / "jars").samefile(INSTALLED / "jars")
    assert spark_home() == home


def test_a_home_that_is_named_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert spark_home() is None


def test_workers_of_another_python_may_need_the_zip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    assert spark_home() is None
