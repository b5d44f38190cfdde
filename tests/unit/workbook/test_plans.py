"""Plans as Java tells them, played by Python: opened and drawn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from workbook.plans import Stage, plan_graph, stage_of


class Node:
    """A physical operator, with the methods that py4j would reach."""

    def __init__(self, name: str, *below: Any) -> None:
        self._name, self._below = name, below

    def nodeName(self) -> str:
        return self._name

    def children(self) -> Any:
        return SimpleNamespace(size=lambda: len(self._below), apply=self._below.__getitem__)

    def plan(self) -> Any:
        return self._below[0]

    executedPlan = plan


SCAN = Node("Scan ExistingRDD[a#1]")
PLAN = Node(
    "AdaptiveSparkPlan",
    Node(
        "BroadcastHashJoin",
        Node("ShuffleQueryStage", Node("Exchange", Node("HashAggregate", SCAN))),
        Node(
            "BroadcastExchange",
            Node("WholeStageCodegen (1)", Node("Exchange", Node("Project", SCAN))),
        ),
    ),
)


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
