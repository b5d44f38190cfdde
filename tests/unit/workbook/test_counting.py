"""The queries of the kill drills, without Spark: the source counts on, the sink publishes once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psycopg
import pyarrow as pa

from tutorial_pkg.workbook.counting import (
    TABLES,
    Count,
    Stage,
    count_source,
    publish,
    table_sink,
)


class Added(list):
    add = list.append


def test_each_instance_goes_on_from_its_own_snapshot() -> None:
    first, rows = Count(SimpleNamespace(index=1)), Added()
    first.fill(rows)
    second = Count(SimpleNamespace(index=1))
    second.restore([70, first.snapshot()])
    second.fill(rows)
    assert rows == [(1, number) for number in range(20)]


def test_both_can_be_built() -> None:
    assert (count_source().name(), table_sink().name()) == ("count", "numbers_table")


def staged(context: Any, numbers: list[int]) -> str:
    stage = Stage(context)
    stage.receive_batch(
        pa.RecordBatch.from_pydict({"instance": [0] * len(numbers), "number": numbers})
    )
    handle = stage.flush()
    stage.close()
    return handle


def test_a_batch_is_published_once_and_only_what_counts(uri: str) -> None:
    with psycopg.connect(uri) as database:
        database.execute(TABLES)
    context = SimpleNamespace(query="q", batch=0, options=SimpleNamespace(uri=uri))
    staged(context, [1, 2])  # of a task that died
    for _ in range(2):  # Spark has no note of the batch, and repeats it
        publish(context, [staged(context, [1]), staged(context, [2])])
    with psycopg.connect(uri) as database:
        assert database.execute("SELECT number FROM numbers ORDER BY 1").fetchall() == [(1,), (2,)]
        assert database.execute("SELECT count(*) FROM numbers_staged").fetchone() == (2,)
