"""`python -m spark_connector_tests module:function`: an examination from a shell."""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import signal
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_connector_tests.driver import NewSession
from spark_connector_tests.examination import Describe, Examination
from spark_connector_tests.promise import Mistake, plain

PROGRAM = "python -m spark_connector_tests"


def main(arguments: Sequence[str] | None = None) -> int:
    """Examine what the command line names, and return the exit code of `report_on`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Find out which promises a streaming source or sink keeps."
    )
    add = parser.add_argument
    add("what", metavar="module:function", help="describes a source or sink")
    names: dict[str, Any] = {"nargs": "*", "default": (), "metavar": "PROMISE"}
    add("--without", **names, help="leave these promises out")
    add("--only", **names, help="try only these promises")
    session_help = "returns a new Spark session, here and in the drivers that are killed"
    add("--session", metavar="module:function", help=session_help)
    options = parser.parse_args(arguments)
    try:
        describe = function_named(options.what)
        session = function_named(options.session) if options.session else None
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up then, too
        spark = session() if session else plain_session()
    except Mistake as error:
        return _refused(error)
    try:
        return report_on(describe, spark, options.without, options.only, session)
    finally:
        spark.stop()


def plain_session() -> SparkSession:
    """Start a plain session on this machine; workers run this Python. `Mistake` without Java."""
    home = os.environ.get("JAVA_HOME")
    if not shutil.which("java", path=str(Path(home) / "bin") if home else None):
        where = f"in JAVA_HOME={home}" if home else "on PATH, and JAVA_HOME is not set"
        raise Mistake(f"found no Java {where}: set JAVA_HOME to the folder of a Java 17 or 21")
    # Workers of another Python would hang, or fail.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")  # the report has the errors
    return spark


def function_named(what: str) -> Any:
    """Return the function that `module:function` names; `Mistake` if there is none."""
    module, _, name = what.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        wanted = "expected module:function, such as my_module:my_source"
        raise Mistake(f"{wanted}, got {what}: {plain(error)}") from error


def report_on(
    describe: Describe,
    spark: SparkSession,
    without: Collection[str] = (),
    only: Collection[str] = (),
    session: NewSession | None = None,
) -> int:
    """Examine, and print each verdict as soon as it is known.

    Returns 0 if no promise is broken, 1 if one is, 2 for a mistake in the call, 130 after Ctrl-C.
    """
    try:
        examination = Examination(describe, spark, session)
        report = examination.report(without, only, lambda verdict: print(verdict, flush=True))
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted; the other promises were not tried", file=sys.stderr)
        return 130
    except Mistake as error:
        return _refused(error)
    print(f"{report.summary()} ({report.seconds:.0f} s)")
    if not report.broken:
        return 0
    [cause] = [verdict for verdict in report.verdicts if verdict.name == report.broken[0]]
    print(f"Start with `{cause.name}`. {cause.remedy}")
    return 1


def _refused(error: Mistake) -> int:
    print(f"{PROGRAM}: {error}", file=sys.stderr)
    return 2
