"""`python -m tutorial_pkg examine module:function`: an examination from a shell."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import cast

from pyspark.sql import SparkSession

from tutorial_pkg.testing.described import (
    DescribeSink,
    DescribeSource,
    StreamSink,
    StreamSource,
)
from tutorial_pkg.testing.examination import examine_sink, examine_source
from tutorial_pkg.testing.promise import Mistake
from tutorial_pkg.testing.report import Report, Verdict

Describe = Callable[[Path], StreamSource | StreamSink]


def describe_named(what: str) -> Describe:
    """The function that `module:function` names.

    Raises `Mistake` that says which part of the name leads nowhere.
    """
    module, _, name = what.partition(":")
    if not name:
        raise Mistake(f"name a module and a function in it, as my_module:my_source, not {what}")
    try:
        found: Describe = getattr(importlib.import_module(module), name)
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
) -> int:
    """Examine, and print each verdict as soon as there is one.

    1 when a promise is broken, 2 for a mistake in the call, 130 when it is interrupted.
    """
    try:
        report = _examined(describe, spark, without, only)
    except KeyboardInterrupt:
        print("examine: interrupted; the rest was not tried", file=sys.stderr)
        return 130
    except Mistake as error:
        print(f"examine: {error}", file=sys.stderr)
        return 2
    print(f"{report.summary()} ({report.seconds:.0f} s)")
    return 1 if report.broken else 0


def _examined(
    describe: Describe, spark: SparkSession, without: Collection[str], only: Collection[str]
) -> Report:
    """What it describes is seen by describing it once, in a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        described = describe(Path(folder))
        if not isinstance(described, StreamSource | StreamSink):
            raise Mistake(f"it must return a StreamSource or a StreamSink, not {described!r}")
        described.close()
    if isinstance(described, StreamSource):
        return examine_source(cast(DescribeSource, describe), spark, without, only, _print)
    return examine_sink(cast(DescribeSink, describe), spark, without, only, _print)


def _print(verdict: Verdict) -> None:
    print(verdict, flush=True)
