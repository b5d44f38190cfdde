"""A secret among a query's options must not be visible anywhere."""

from __future__ import annotations

import contextlib
import io
import os
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from tutorial_pkg.core.places import work_dir

SECRET = "p'a\"s s@w:o/r%d"
PAGES = ("environment", "sql?details=true&planDescription=true", "jobs", "stages")


def sightings(
    spark: SparkSession, name: str, options: Mapping[str, object], folder: Path
) -> list[str]:
    """Run a query and a batch with these options, and return the places that show the secret."""
    log = work_dir("logs") / f"spark-{os.getpid()}.log"
    seen_before = log.stat().st_size
    given = {key: str(value) for key, value in options.items()}
    places = dict(_of_a_stream(spark, name, given, folder))
    places |= dict(_of_a_batch(spark, name, given))
    places |= dict(_of_the_ui(spark))
    places["log"] = log.read_bytes()[seen_before:].decode(errors="replace")
    for file in (folder / "checkpoint").rglob("*"):
        places[str(file)] = file.read_bytes().decode(errors="replace") if file.is_file() else ""
    return [place for place, text in places.items() if SECRET in text or SECRET[2:] in text]


def _of_a_stream(
    spark: SparkSession, name: str, options: Mapping[str, str], folder: Path
) -> Iterator[tuple[str, str]]:
    rows = spark.readStream.format(name).options(**options).load()
    yield "the stream's plan", _printed(lambda: rows.explain(True))
    query = (
        rows.writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    query.processAllAvailable()
    assert query.lastProgress["numInputRows"] or query.recentProgress
    yield "the query's plan", _printed(lambda: query.explain(True))
    yield "the progress", str([progress.json for progress in query.recentProgress])
    query.stop()


def _of_a_batch(
    spark: SparkSession, name: str, options: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    rows = spark.read.format(name).options(**options).load()
    assert rows.count() > 0
    yield "the batch's plan", _printed(lambda: rows.explain("extended"))
    yield "the rows as text", f"{rows!r} {rows.schema}"


def _of_the_ui(spark: SparkSession) -> Iterator[tuple[str, str]]:
    context = spark.sparkContext
    for page in PAGES:
        url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{page}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            yield url, answer.read().decode()


def _printed(explain: object) -> str:
    assert callable(explain)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        explain()
    assert len(printed.getvalue()) > 50
    return printed.getvalue()
