"""What Spark's plan of a query is made of, and what went over each of its shuffles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery


class Shuffle(NamedTuple):
    """What one exchange moved in the last batch."""

    rows: int
    bytes: int


def last_plan(query: StreamingQuery) -> Any:
    """The physical plan of the query's last batch, as Java has it."""
    return query._jsq.streamingQuery().lastExecution().executedPlan()


def plan_of(frame: DataFrame) -> Any:
    """The physical plan of a DataFrame that was collected, as it was run."""
    return frame._jdf.queryExecution().executedPlan()


def nodes(plan: Any) -> Iterator[Any]:
    """The plan's operators, each before those that feed it."""
    yield plan
    for child in children(plan):
        yield from nodes(child)


def children(plan: Any) -> list[Any]:
    """What feeds an operator; stages of an adaptive plan are opened."""
    if plan.nodeName() == "AdaptiveSparkPlan":
        return [plan.executedPlan()]
    if plan.nodeName().endswith("QueryStage"):
        return [plan.plan()]
    found = plan.children()
    return [found.apply(n) for n in range(found.size())]


def shuffles(plan: Any) -> list[Shuffle]:
    """Of each exchange, from the source on."""
    found = [node for node in nodes(plan) if node.nodeName() == "Exchange"]
    return [
        Shuffle(metric(node, "shuffleRecordsWritten"), metric(node, "shuffleBytesWritten"))
        for node in reversed(found)
    ]


def metric(node: Any, name: str) -> int:
    return int(node.metrics().apply(name).value())
