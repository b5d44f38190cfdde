"""The operators of a query's plan, the rows and bytes of its shuffles, and the plan as a graph.

In the graph a box holds operators that run in one task. An arrow is an exchange: `shuffle` deals
rows out by key, `broadcast` copies a small side to all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from IPython.display import SVG
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from workbook.diagrams import INK, Box, arrow, card, drawn, width_of

# ---- Operators and shuffles ----------------------------------------------------------------------


class Shuffle(NamedTuple):
    """The rows and bytes that one exchange moved in the last batch."""

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
    """Return the operators that feed this one; stages of an adaptive plan are opened."""
    if plan.nodeName() == "AdaptiveSparkPlan":
        return [plan.executedPlan()]
    if plan.nodeName().endswith("QueryStage"):
        return [plan.plan()]
    found = plan.children()
    return [found.apply(n) for n in range(found.size())]


def shuffles(plan: Any) -> list[Shuffle]:
    """Return the shuffles from the source on."""
    found = [node for node in nodes(plan) if node.nodeName() == "Exchange"]
    return [
        Shuffle(metric(node, "shuffleRecordsWritten"), metric(node, "shuffleBytesWritten"))
        for node in reversed(found)
    ]


def metric(node: Any, name: str) -> int:
    return int(node.metrics().apply(name).value())


# ---- Stages --------------------------------------------------------------------------------------

MOVES = {"Exchange": "shuffle", "BroadcastExchange": "broadcast"}
# Operators that neither move rows nor compute anything of interest.
HIDDEN = (
    "WholeStageCodegen",
    "InputAdapter",
    "AdaptiveSparkPlan",
    "ColumnarToRow",
    "AQEShuffleRead",
    "Project",
)


class Stage(NamedTuple):
    """Operators that run one after the other in a task, and the stages that feed them."""

    operators: list[str]
    inputs: list[tuple[str, Stage]]


def stage_of(plan: Any) -> Stage:
    """The stage that a plan ends in, with all that it needs."""
    stage = Stage([], [])
    _collect(plan, stage)
    return stage


def _collect(node: Any, stage: Stage) -> None:
    name = node.nodeName()
    for child in children(node):
        if name in MOVES:
            stage.inputs.append((MOVES[name], stage_of(child)))
        else:
            _collect(child, stage)
    if name not in MOVES and not name.startswith(HIDDEN) and not name.endswith("QueryStage"):
        stage.operators.append(_short(name))


def _short(name: str) -> str:
    """`Scan ExistingRDD[a#1]` is a Scan."""
    return re.split(r"[\s(\[]", name)[0]


# ---- The graph -----------------------------------------------------------------------------------

GAP_X, GAP_Y = 90, 16


def plan_graph(plan: Any) -> SVG:
    """The plan, from what it reads, at the left, to its result."""
    boxes: list[Box] = []
    arrows: list[str] = []
    _place(stage_of(plan), 0, 0, boxes, arrows)
    height = max(_bottom(box) for box in boxes)
    return card([*arrows, *map(drawn, boxes)], min(box.left for box in boxes), 0, height)


def _place(stage: Stage, right: float, top: float, boxes: list[Box], arrows: list[str]) -> Box:
    """The stage's box with its right edge there, in the middle of what feeds it."""
    lines = stage.operators or ["…"]
    box = Box(lines, right - width_of(lines), 0, width_of(lines))
    feeding, bottom = [], top
    for _, child in stage.inputs:
        first = len(boxes)
        feeding.append(_place(child, box.left - GAP_X, bottom, boxes, arrows))
        bottom = max(map(_bottom, boxes[first:])) + GAP_Y
    middles = [below.middle for below in feeding] or [0.0]
    box = box._replace(middle=max(top + box.height / 2, sum(middles) / len(middles)))
    boxes.append(box)
    for (move, _), below in zip(stage.inputs, feeding, strict=True):
        dashes = ' stroke-dasharray="5 4"' if move == "broadcast" else ""
        arrows.append(arrow(below, box, box.middle, dashes) + _label(move, below, box))
    return box


def _bottom(box: Box) -> float:
    return box.middle + box.height / 2


def _label(move: str, start: Box, end: Box) -> str:
    return (
        f'<text x="{(start.right + end.left) / 2:.1f}" y="{(start.middle + end.middle) / 2 - 5}" '
        f'text-anchor="middle" fill="{INK}" font-size="11">{move}</text>'
    )
