"""What Spark's plan of a query is made of, what went over its shuffles, and the plan as a graph.

In the graph a box holds operators that run in one task. An arrow is an exchange: `shuffle` deals
rows out by key, `broadcast` copies a small side to all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

from IPython.display import SVG
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg.workbook.diagrams import HEAD, INK, LETTER, LINE, PLAIN, STYLE

# ---- Operators and shuffles ----------------------------------------------------------------------


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


# ---- Stages --------------------------------------------------------------------------------------

MOVES = {"Exchange": "shuffle", "BroadcastExchange": "broadcast"}
# What moves no rows and computes nothing that a reader would miss.
HIDDEN = (
    "WholeStageCodegen",
    "InputAdapter",
    "AdaptiveSparkPlan",
    "ColumnarToRow",
    "AQEShuffleRead",
    "Project",
)


class Stage(NamedTuple):
    """The names of operators that run one after the other in a task, and what they are fed by."""

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

LINE_HEIGHT, GAP_X, GAP_Y, PADDING = 18, 90, 16, 20


class _Box(NamedTuple):
    operators: list[str]
    right: float
    top: float

    @property
    def left(self) -> float:
        return self.right - max(map(len, self.operators)) * LETTER - PADDING

    @property
    def height(self) -> float:
        return len(self.operators) * LINE_HEIGHT + 14

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


class _Arrow(NamedTuple):
    move: str
    source: _Box
    target: _Box


def plan_graph(plan: Any) -> SVG:
    """The plan, from what it reads, at the left, to its result."""
    boxes: list[_Box] = []
    arrows: list[_Arrow] = []
    _place(stage_of(plan), 0, 0, boxes, arrows)
    left = min(box.left for box in boxes)
    height = max(box.top + box.height for box in boxes)
    shapes = "".join([*map(_arrow, arrows), *map(_box, boxes)])
    view = f"{left - 12:.0f} -12 {24 - left:.0f} {height + 24:.0f}"
    card = f'<rect x="{left - 12:.0f}" y="-12" width="100%" height="100%" rx="8" fill="white"/>'
    return SVG(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{24 - left:.0f}" '
        f'height="{height + 24:.0f}" viewBox="{view}" style="{STYLE}">{HEAD}{card}{shapes}</svg>'
    )


def _place(stage: Stage, right: float, top: float, boxes: list[_Box], arrows: list[_Arrow]) -> _Box:
    """The stage's box with its right edge there, in the middle of what feeds it."""
    draft = _Box(stage.operators or ["…"], right, top)
    feeding, bottom = [], top
    for move, child in stage.inputs:
        first = len(boxes)
        feeding.append((move, _place(child, draft.left - GAP_X, bottom, boxes, arrows)))
        bottom = max(box.top + box.height for box in boxes[first:]) + GAP_Y
    middles = [box.middle for _, box in feeding] or [draft.middle]
    box = draft._replace(top=max(top, sum(middles) / len(middles) - draft.height / 2))
    boxes.append(box)
    arrows += [_Arrow(move, source, box) for move, source in feeding]
    return box


def _box(box: _Box) -> str:
    lines = "".join(
        f'<text x="{(box.left + box.right) / 2:.1f}" y="{box.top + (n + 1) * LINE_HEIGHT:.1f}" '
        f'text-anchor="middle" fill="{INK}">{escape(name)}</text>'
        for n, name in enumerate(box.operators)
    )
    return (
        f'<rect x="{box.left:.1f}" y="{box.top:.1f}" width="{box.right - box.left:.1f}" '
        f'height="{box.height:.1f}" rx="6" fill="{PLAIN}" stroke="{LINE}"/>{lines}'
    )


def _arrow(arrow: _Arrow) -> str:
    x, y = arrow.source.right, arrow.source.middle
    to_x, to_y = arrow.target.left, arrow.target.middle
    dashes = ' stroke-dasharray="5 4"' if arrow.move == "broadcast" else ""
    return (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{LINE}" '
        f'stroke-width="1.5" marker-end="url(#head)"{dashes}/>'
        f'<text x="{(x + to_x) / 2:.1f}" y="{(y + to_y) / 2 - 5:.1f}" text-anchor="middle" '
        f'fill="{INK}" font-size="11">{arrow.move}</text>'
    )
