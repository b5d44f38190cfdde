"""Plans as Java tells them, played by Python: opened, measured, drawn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tutorial_pkg.workbook.plans import Shuffle, Stage, nodes, plan_graph, shuffles, stage_of


class Node:
    """A physical operator, with the methods that py4j would reach."""

    def __init__(self, name: str, *below: Any, **metrics: int) -> None:
        self._name, self._below, self._metrics = name, below, metrics

    def nodeName(self) -> str:
        return self._name

    def children(self) -> Any:
        return SimpleNamespace(size=lambda: len(self._below), apply=self._below.__getitem__)

    def metrics(self) -> Any:
        values = {name: SimpleNamespace(value=lambda v=v: v) for name, v in self._metrics.items()}
        return SimpleNamespace(apply=values.__getitem__)

    def plan(self) -> Any:
        return self._below[0]

    executedPlan = plan


def exchange(below: Node, rows: int) -> Node:
    return Node("Exchange", below, shuffleRecordsWritten=rows, shuffleBytesWritten=10 * rows)


SCAN = Node("Scan ExistingRDD[a#1]")
PLAN = Node(
    "AdaptiveSparkPlan",
    Node(
        "BroadcastHashJoin",
        Node("ShuffleQueryStage", exchange(Node("HashAggregate", SCAN), 5)),
        Node(
            "BroadcastExchange", Node("WholeStageCodegen (1)", exchange(Node("Project", SCAN), 7))
        ),
    ),
)


def test_stages_of_an_adaptive_plan_are_opened() -> None:
    names = [node.nodeName() for node in nodes(PLAN)]
    assert names.count("Exchange") == 2
    assert names[0] == "AdaptiveSparkPlan"


def test_what_each_shuffle_moved_from_the_source_on() -> None:
    assert shuffles(exchange(exchange(SCAN, 100), 7)) == [Shuffle(100, 1000), Shuffle(7, 70)]


def test_stages_with_what_moves_between_them() -> None:
    assert stage_of(PLAN) == Stage(
        ["BroadcastHashJoin"],
        [
            ("shuffle", Stage(["Scan", "HashAggregate"], [])),
            ("broadcast", Stage([], [("shuffle", Stage(["Scan"], []))])),
        ],
    )


def test_what_was_shuffled_already_is_named() -> None:
    plan = Node("HashAggregate", Node("ShuffleQueryStage", Node("ReusedExchange")))
    assert stage_of(plan) == Stage(["ReusedExchange", "HashAggregate"], [])


def test_the_drawing_names_operators_and_moves() -> None:
    drawing = plan_graph(PLAN).data
    for text in ("BroadcastHashJoin", "HashAggregate", "shuffle", "broadcast", "Scan"):
        assert text in drawing
    assert "Project" not in drawing
