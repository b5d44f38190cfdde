"""The commit record, as it is written and as earlier versions have written it."""

from __future__ import annotations

from pathlib import Path

from tutorial_pkg.connectors.cpu_log.query_owner import Owner
from tutorial_pkg.connectors.cpu_log.record import FileEnd, Piece, Record, RecordFile, Staged

EARLIER = Path(__file__).parents[2] / "earlier" / "written"
OWNER = Owner("query-a", "run-1", "here", 1, 0.5)


def test_a_record_survives_its_json() -> None:
    piece = Piece(Staged("query-a.1", 3, 10, 99), "data.3.2.csv", 20)
    record = Record(OWNER, {"query-a": 4}, {3: FileEnd(2, 30)}, (piece,), {"query-a": "a plan"})
    assert Record.from_json(record.to_json()) == record


def test_a_record_of_version_0_1_0_has_no_plans() -> None:
    record = RecordFile(EARLIER / "cpu_log" / "_cpu_log" / "record.json").read()
    assert record.done == {"d212f59c-5891-451c-a63d-0bdcd6f99656": 3}
    assert record.ends == {0: FileEnd(0, 6294), 1: FileEnd(0, 6294)}
    assert record.plans == {}


def test_a_batch_without_a_known_plan_forgets_the_one_before() -> None:
    record = Record(plans={"a": "plan of 3", "b": "plan of 9"}, done={"a": 3, "b": 9})
    after = record.with_batch("a", 4, None)
    assert after.done == {"a": 4, "b": 9}
    assert after.plans == {"b": "plan of 9"}
