"""How start_spark gets its JVM, with a script in place of Spark's own: no JVM starts here."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import MagicMock
from zipfile import ZipFile

import pytest

from tutorial_pkg import start_spark
from tutorial_pkg.session import start as session

TRACE = """\
WARNING: Using incubator modules: jdk.incubator.vector
Exception in thread "main" java.lang.IllegalArgumentException: Missing application resource.
\tat org.apache.spark.launcher.CommandBuilderUtils.checkArgument(CommandBuilderUtils.java:241)
"""


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script to be written, which is run in place of `spark-submit`."""
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(session, "find_java", lambda: SimpleNamespace(home=tmp_path))
    monkeypatch.setattr(session, "_java_options", lambda _: "")
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    script.touch(mode=0o700)
    return script


def test_a_jvm_that_does_not_start_says_why(spark_submit: Path, tmp_path: Path) -> None:
    log = tmp_path / "spark-1.log"
    log.write_text("Error: of an earlier session\n")
    spark_submit.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{TRACE}END\nexit 1\n")
    with pytest.raises(RuntimeError) as caught:
        session._launch({}, log)
    assert str(caught.value) == (
        'Spark\'s JVM did not start: Exception in thread "main" '
        "java.lang.IllegalArgumentException: Missing application resource. "
        f"All it said: {os.path.relpath(log)}"
    )
    assert caught.value.__suppress_context__, "PySpark's own says nothing more"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("", "it said nothing"),
        ("one\ntwo\nthree\nfour\n", "two; three; four"),
        (
            "Invalid maximum heap size: -Xmx2x\nError: Could not create the JVM.\n",
            "Invalid maximum heap size: -Xmx2x; Error: Could not create the JVM",
        ),
        ("Starting\nError: no option: --foo\n\n  usage\na\nb\nc", "Error: no option: --foo; a; b"),
    ],
)
def test_the_lines_that_tell_the_most(said: str, told: str) -> None:
    assert session._telling_lines(said) == told


def test_the_jvm_hears_the_caller_last_and_the_environment_stays(
    spark_submit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark_submit.write_text('#!/bin/sh\necho "$@"\nexit 1\n')
    for said, kept in (("--driver-memory 2g pyspark-shell", True), ("", False)):
        if kept:
            monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", said)
        else:
            monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
        before = dict(os.environ)
        with pytest.raises(RuntimeError):
            session._launch({"spark.driver.memory": "8g"}, log := tmp_path / "spark-1.log")
        words = log.read_text().splitlines()[-1]
        assert words.endswith("--conf spark.driver.memory=8g pyspark-shell")
        assert words.startswith("--driver-memory 2g") is kept
        assert dict(os.environ) == before


class Gateway:
    """As much of PySpark's as is needed to end its JVM."""

    jvm = None

    def __getattr__(self, name: str) -> object:
        """As py4j has it: what is not here is taken for something of the JVM's."""
        return f"{name} of the JVM"

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.gateway_property = SimpleNamespace(pool=SimpleNamespace(dict={}))
        stdin = SimpleNamespace(close=lambda: self.ended.append("stdin closed"))
        self.proc = SimpleNamespace(stdin=stdin, wait=lambda timeout: self.ended.append("waited"))

    def shutdown(self) -> None:
        self.ended.append("shut down")


class Context:
    """A SparkContext that has been stopped as soon as it is there; its gateway stays."""

    _active_spark_context = None
    _gateway: ClassVar[Any] = None
    _jvm: ClassVar[Any] = None

    def __init__(self, gateway: Gateway, conf: object) -> None:
        Context._gateway = Context._gateway or gateway


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Gateway]:
    """The gateways that start_spark has launched; all that would need a real one is left out."""
    gateways: list[Gateway] = []

    def launch(*_: object) -> Gateway:
        gateways.append(Gateway())
        return gateways[-1]

    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_LOCAL_IP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Context, "_gateway", None)
    monkeypatch.setattr(session, "SparkContext", Context)
    monkeypatch.setattr(session, "_launch", launch)
    left_out = "SparkSession _greet _prepare_python await_workers check_master register ship"
    for name in [*left_out.split(), "_spare_lookup"]:
        monkeypatch.setattr(session, name, lambda *_: None)
    return gateways


def test_a_session_after_another_takes_its_jvm(launched: list[Gateway]) -> None:
    start_spark("one")
    start_spark("two", cores=3, **{"spark.ui.enabled": "false"})
    assert [gateway.ended for gateway in launched] == [[]]


@pytest.mark.parametrize(
    ("name", "value"),
    [("spark.master", "spark://node1:7077"), ("spark.driver.memory", "3g")],
)
def test_but_not_one_that_was_started_for_other_settings(
    launched: list[Gateway], name: str, value: str
) -> None:
    """On loopback for a cluster's workers, for example: the first job would wait for ever."""
    start_spark()
    start_spark(**{name: value})
    assert [gateway.ended for gateway in launched] == [["shut down", "stdin closed", "waited"], []]
    assert Context._gateway is launched[1]
    start_spark(**{name: value})
    assert len(launched) == 2


def test_nor_one_that_the_environment_has_shaped_otherwise(
    launched: list[Gateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    start_spark()
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars a.jar pyspark-shell")
    start_spark()
    assert len(launched) == 2


def test_a_jvm_that_someone_else_has_started_stays(launched: list[Gateway]) -> None:
    Context._gateway = theirs = Gateway()
    start_spark()
    assert (launched, theirs.ended) == ([], [])


# ---- What Spark need not look up ----------------------------------------------------------------


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """A JVM that notes what it is told."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    return MagicMock()


def was_told(jvm: MagicMock) -> bool:
    return any("dataSourceBuilders_$eq" in str(call) for call in jvm.mock_calls)


def test_spark_is_told_that_no_package_brings_sources(told: MagicMock) -> None:
    session._spare_lookup(told)
    assert was_told(told)


def test_it_looks_by_itself_where_it_has_looked_before(told: MagicMock) -> None:
    objects = told.org.apache.spark.sql.execution.datasources
    manager = getattr(getattr(objects, "DataSourceManager$"), "MODULE$")
    manager.dataSourceBuilders.return_value.isEmpty.return_value = False
    session._spare_lookup(told)
    assert not was_told(told)


@pytest.mark.parametrize(
    "name", ["current folder", "PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"]
)
def test_it_looks_by_itself_where_it_may_find_a_package_or_runs_another_python(
    told: MagicMock, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyspark_brought.py").touch()
    if name == "current folder":
        monkeypatch.chdir(tmp_path)
    elif name == "PYTHONPATH":
        monkeypatch.setenv(name, f"/nowhere{os.pathsep}{tmp_path}")
    else:
        monkeypatch.setenv(name, "/opt/another/bin/python")
    session._spare_lookup(told)
    assert not told.mock_calls


def test_a_zip_that_was_shipped_and_is_gone_is_passed_over(
    told: MagicMock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a session on a cluster: it stays on the path when its folder is deleted."""
    shipped = tmp_path / "shipped.zip"
    with ZipFile(shipped, "w") as file:
        file.writestr("of_the_zip.py", "")
    monkeypatch.syspath_prepend(shipped)
    assert "of_the_zip" in [module.name for module in pkgutil.iter_modules()]
    shipped.unlink()
    importlib.invalidate_caches()
    session._spare_lookup(told)
    assert was_told(told)


@pytest.mark.usefixtures("told")
def test_a_spark_that_keeps_its_sources_elsewhere_looks_by_itself() -> None:
    class Package:
        """As py4j has it: of what is not there, it makes a package that nobody can call."""

        def __getattr__(self, name: str) -> Package:
            return Package()

    session._spare_lookup(Package())
