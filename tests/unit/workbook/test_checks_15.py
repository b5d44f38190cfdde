"""The checks of notebook 15."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any

import pyarrow as pa

from tests.unit.workbook.answers import changed, tried
from workbook.checks import check_15_1, check_15_2


def alarms(batch: Any) -> list[str]:
    found = ["late"] if batch.late_rows else []
    if batch.done_per_second < batch.in_per_second and batch.seconds["triggerExecution"] > 1:
        found.append("behind")
    return found


ringing = partial(changed, alarms)


def more_than_before(batch: Any, before: list[int] = [0]) -> list[str]:  # noqa: B006
    found = alarms(batch)
    if batch.late_rows <= before[-1]:
        found = [one for one in found if one != "late"]
    before.append(batch.late_rows)
    return found


def into_one_list(batch: Any, found: list[str] = []) -> list[str]:  # noqa: B006
    found += [one for one in alarms(batch) if one not in found]
    return found


found_so_far: list[str] = []
SLOWER, WHOLE = "batch.done_per_second < batch.in_per_second", 'batch.seconds["triggerExecution"]'
test_15_1 = tried(
    check_15_1,
    (alarms, "✓ It rings when it should"),
    (lambda: [], "raised TypeError"),
    (lambda batch: batch.seconds["total"], "raised KeyError"),
    (lambda batch: "late" if batch.late_rows else None, "A list is wanted"),
    (lambda batch: ["late"], "A healthy batch needs no alarm"),
    (lambda batch: [], "`late_rows`"),
    (lambda batch: ["late"] if batch.late_rows else [], "Fewer rows were processed"),
    (lambda batch: alarms(batch)[:1], "Both may be wrong"),
    (ringing((f"{SLOWER} and ", "")), "It took long"),
    (ringing((f" and {WHOLE} > 1", "")), "says little"),
    (ringing((WHOLE, 'batch.seconds.get("addBatch", 0)')), "Only `triggerExecution` is"),
    (ringing((WHOLE, "sum(batch.seconds.values())")), "Only `triggerExecution` is"),
    (ringing((SLOWER, "batch.done_per_second < 100")), "compared with"),
    (ringing((SLOWER, "batch.done_per_second < min(100, batch.in_per_second)")), "compared with"),
    (ringing((SLOWER, "batch.done_per_second < max(100, batch.in_per_second)")), "compared with"),
    (ringing(("second < batch", "second <= batch")), "As many rows were processed"),
    (ringing(("> 1", ">= 1")), "One second is not longer"),
    (ringing(("> 1", "> 1.2")), "took longer than a second"),
    (ringing((SLOWER, f"batch.batch > 0 and {SLOWER}")), "The first batch is like any other"),
    (ringing((SLOWER, "int(batch.done_per_second) < int(batch.in_per_second)")), "compared with"),
    (lambda batch: ["late"] * batch.late_rows, "yours is ['late', 'late', 'late']"),
    (
        lambda batch: found_so_far.extend(alarms(batch)) or found_so_far,
        "must be ['late'], yours is ['late', 'late']. An earlier call is remembered",
    ),
    (into_one_list, "'late' is from an earlier call: begin with a new list"),
    (ringing(("if batch.late_rows", "if batch.late_rows > 1")), "One dropped row is enough"),
    (more_than_before, "must be ['late'], yours is []. An earlier call is remembered"),
    (lambda batch: list({*alarms(batch)}), "✓ It rings when it should"),
    (ringing((WHOLE, "max(batch.seconds.values())")), "✓ It rings when it should"),
)


def labeller(shop: Any) -> Any:
    name = shop.name

    def label(batches: Any) -> Any:
        for batch in batches:
            items = [f"{name}: {item}" for item in batch["item"].to_pylist()]
            yield pa.record_batch({"item": items})

    return label


labelling = partial(changed, labeller)


class Label:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, batches: Any) -> Any:
        return labeller(self)(batches)


def all_at_once(shop: Any) -> Any:
    name = shop.name

    def label(batches: Any) -> Any:
        items = [f"{name}: {item}" for batch in batches for item in batch["item"].to_pylist()]
        return [pa.record_batch({"item": items})]

    return label


def one_name_for_all(shop: Any) -> Any:
    names[:] = [shop.name]
    return lambda batches: Label(names[0])(batches)


names: list[str] = []
test_15_2 = tried(
    check_15_2,
    (labeller, "✓ Only the name travels"),
    (lambda shop: Label(shop.name), "✓ Only the name travels"),
    (lambda shop: partial(Label.__call__, Label(shop.name)), "✓ Only the name travels"),
    (all_at_once, "✓ Only the name travels"),
    (one_name_for_all, "is the shop of a later call: keep the name inside `labeller`"),
    (lambda shop: shop.label, "The shop is captured: take its name into a variable"),
    (lambda shop: copy(shop).label, "cannot pickle a shop: only its name may travel"),
    (labelling(("to_pylist()]", "to_pylist()[:1]]")), "yours makes [{'item': ['corner: tea']},"),
    (labelling(("to_pylist()]", "to_pylist() if item]")), "['corner: tea', 'corner: tea']}"),
    (labelling(('{"item": items}', '{"item": items, "shop": items}')), "one column, `item`"),
    (
        labelling(("pa.record_batch", "pa.table")),
        "must yield record batches, as it is given; yours yields Table",
    ),
    (labelling(("yield pa.record_batch", "yield from list")), "yours yields str"),
    (labelling(("yield pa.record_batch", "return pa.record_batch")), "Is there a `return`"),
    (labelling(("{name}", "{shop.name}")), "The shop is captured: take its name into a variable"),
    (
        labelling(("name = shop.name", "fields = vars(shop)"), ("{name}", "{fields['name']}")),
        "More than the name is captured",
    ),
    (labelling(("{item}", "{item.strip()}")), "Each item must become 'corner: tea'"),
    (
        labelling(
            (" for item in batch", " if not item.startswith(name) else item for item in batch")
        ),
        "Each item must become 'corner: tea'",
    ),
    (labelling(("{name}", "corner")), "Each item must become 'station: tea'"),
    (labelling(("in batches:", "in [next(batches)]:")), " of [['tea', '', 'tea'], [' milk ', 'c"),
    (labelling(("return label", "return None")), "has to return a function: `return label`"),
    (lambda shop: lambda: [], "It is called with an iterator of record batches."),
)
