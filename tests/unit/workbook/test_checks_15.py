"""The checks of notebook 15: right answers pass, typical wrong ones get their hint."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tutorial_pkg.workbook.checks import check_15_1, check_15_2


def alarms(batch: Any) -> list[str]:
    found = ["late"] if batch.late_rows else []
    if batch.done_per_second < batch.in_per_second and batch.seconds["triggerExecution"] > 1:
        found.append("behind")
    return found


def rings(batch: Any, slower: bool, seconds: float) -> list[str]:
    late = ["late"] if batch.late_rows else []
    return [*late, "behind"] if slower and batch.seconds["triggerExecution"] > seconds else late


def test_15_1() -> None:
    assert check_15_1(alarms).passed
    assert not check_15_1(None).answered


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (lambda batch: ["late"], "is well needs no alarm"),
        (lambda batch: [], "`late_rows`"),
        (lambda batch: ["late"] if batch.late_rows else [], "Fewer rows were done"),
        (lambda batch: [*(["late"] if batch.late_rows else []),
                        *(["behind"] if batch.seconds["addBatch"] > 1 else [])], "It took long"),
        (lambda batch: alarms(batch)[:1], "Both may be wrong"),
        (lambda batch: [*(["late"] if batch.late_rows else []),
                        *(["behind"] if batch.done_per_second < 100 else [])], "says little"),
        (lambda batch: batch.seconds["total"], "It raised KeyError"),
        (lambda batch: [*(["late"] if batch.late_rows else []),
                        *(["behind"] if batch.done_per_second < batch.in_per_second
                          and batch.seconds["addBatch"] > 1 else [])], "is `triggerExecution`."),
        (lambda batch: [*(["late"] if batch.late_rows else []),
                        *(["behind"] if batch.done_per_second < batch.in_per_second
                          and sum(batch.seconds.values()) > 1 else [])],
         "`triggerExecution`, only"),
        (lambda batch: rings(batch, batch.done_per_second < 100, 0.8), "compared with"),
        (lambda batch: rings(batch, batch.done_per_second < min(100, batch.in_per_second), 1),
         "compared with"),
        (lambda batch: rings(batch, batch.done_per_second < max(100, batch.in_per_second), 1),
         "compared with"),
        (lambda batch: rings(batch, batch.done_per_second <= batch.in_per_second, 1),
         "As many rows were done"),
        (lambda batch: rings(batch, batch.done_per_second < batch.in_per_second, 0.8),
         "A second is not longer"),
        (lambda batch: rings(batch, batch.done_per_second < batch.in_per_second, 1.2),
         "took longer than a second"),
        (lambda batch: "late" if batch.late_rows else None, "A list is wanted"),
        ("late", "A function is wanted"),
        (lambda: [], "It raised TypeError"),
    ],
)  # fmt: skip
def test_15_1_wrong(answer: Any, hint: str) -> None:
    verdict = check_15_1(answer)
    assert not verdict.passed
    assert hint in verdict.message


def labeller(shop: Any) -> Any:
    name = shop.name

    def label(batches: Any) -> Any:
        for batch in batches:
            items = [f"{name}: {item}" for item in batch["item"].to_pylist()]
            yield pa.record_batch({"item": items})

    return label


def test_15_2() -> None:
    assert check_15_2(labeller).passed


def captures(shop: Any) -> Any:
    def label(batches: Any) -> Any:
        for batch in batches:
            yield pa.record_batch(
                {"item": [f"{shop.name}: {i}" for i in batch["item"].to_pylist()]}
            )

    return label


def captures_its_fields(shop: Any) -> Any:
    fields = dict(vars(shop))

    def label(batches: Any) -> Any:
        for batch in batches:
            yield pa.record_batch(
                {"item": [f"{fields['name']}: {i}" for i in batch["item"].to_pylist()]}
            )

    return label


def knows_one_name(shop: Any) -> Any:
    def label(batches: Any) -> Any:
        for batch in batches:
            yield pa.record_batch({"item": [f"corner: {i}" for i in batch["item"].to_pylist()]})

    return label


def first_only(shop: Any) -> Any:
    label = labeller(shop)
    return lambda batches: [next(iter(label(batches)))]


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (captures, "The shop is captured: take its name into a variable before `def`."),
        (captures_its_fields, "More than the name is captured"),
        (knows_one_name, "Each item is to become 'station: tea'"),
        (first_only, "Each item is to become 'corner: tea', batch by batch"),
        (lambda shop: None, "has to return a function: `return label`"),
        (lambda shop: lambda: [], "It is called with an iterator of record batches."),
        (3, "A function is wanted"),
    ],
)
def test_15_2_wrong(answer: Any, hint: str) -> None:
    verdict = check_15_2(answer)
    assert not verdict.passed
    assert hint in verdict.message
