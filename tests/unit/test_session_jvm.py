"""How start_spark gets its JVM, with a script in place of Spark's own: no JVM starts here."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tutorial_pkg import session

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
