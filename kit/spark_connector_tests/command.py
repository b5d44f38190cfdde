"""`examine module:function`: an examination from a shell."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession

from spark_connector_tests.described import (
    DescribeSink,
    DescribeSource,
    StreamSink,
    StreamSource,
)
from spark_connector_tests.examination import NewSession, examine_sink, examine_source
from spark_connector_tests.promise import Mistake
from spark_connector_tests.report import Report, Verdict

Describe = Callable[[Path], StreamSource | StreamSink]


def main(
    arguments: Sequence[str] | None = None,
    begin: NewSession = SparkSession.builder.getOrCreate,
    end: Callable[[SparkSession], object] = SparkSession.stop,
) -> int:
    """Examine what the command line names; the exit code is that of `report_on`.

    `begin` makes a session unless `--session` names a function that does.
    """
    given = _parser().parse_args(arguments)
    try:
        describe = describe_named(given.what)
        named = describe_named(given.session) if given.session else None
    except Mistake as error:
        print(f"examine: {error}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leaves nothing behind, either
    spark = named() if named else begin()
    try:
        return report_on(describe, spark, given.without, given.only, named)
    finally:
        (SparkSession.stop if named else end)(spark)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="examine", description="Does a streaming source or sink keep its promises?"
    )
    parser.add_argument("what", metavar="module:function", help="describes a source or sink")
    parser.add_argument("--without", nargs="*", default=(), metavar="PROMISE", help="do not try")
    parser.add_argument("--only", nargs="*", default=(), metavar="PROMISE", help="try no others")
    parser.add_argument(
        "--session",
        metavar="module:function",
        help="returns a new Spark session, here and in the "
        "drivers that are killed, if a plain one will not do",
    )
    return parser


def describe_named(what: str) -> Any:
    """The function that `module:function` names.

    Raises `Mistake` that says which part of the name leads nowhere.
    """
    module, _, name = what.partition(":")
    if not name:
        raise Mistake(f"name a module and a function in it, as my_module:my_source, not {what}")
    try:
        found = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise Mistake(f"cannot import {module}: {error}") from error
    except AttributeError:
        raise Mistake(f"{module} has no {name}") from None
    return found


def report_on(
    describe: Describe,
    spark: SparkSession,
    without: Collection[str] = (),
    only: Collection[str] = (),
    session: NewSession | None = None,
) -> int:
    """Examine, and print each verdict as soon as there is one.

    1 when a promise is broken, 2 for a mistake in the call, 130 when it is interrupted.
    """
    try:
        report = _examined(describe, spark, without, only, session)
    except KeyboardInterrupt:
        print("examine: interrupted; the rest was not tried", file=sys.stderr)
        return 130
    except Mistake as error:
        print(f"examine: {error}", file=sys.stderr)
        return 2
    print(f"{report.summary()} ({report.seconds:.0f} s)")
    return 1 if report.broken else 0


def _examined(
    describe: Describe,
    spark: SparkSession,
    without: Collection[str],
    only: Collection[str],
    session: NewSession | None,
) -> Report:
    """Describe it once, in a temporary folder, to see whether it is a source or a sink."""
    with tempfile.TemporaryDirectory() as folder:
        described = describe(Path(folder))
        if not isinstance(described, StreamSource | StreamSink):
            raise Mistake(f"it must return a StreamSource or a StreamSink, not {described!r}")
        described.close()
    if isinstance(described, StreamSource):
        return examine_source(cast(DescribeSource, describe), spark, without, only, _print, session)
    return examine_sink(cast(DescribeSink, describe), spark, without, only, _print, session)


def _print(verdict: Verdict) -> None:
    print(verdict, flush=True)
