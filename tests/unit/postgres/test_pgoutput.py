"""Messages as a server sent them, decoded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tutorial_pkg.connectors.postgres.pgoutput import ABSENT, UNCHANGED, Changes, Decoder, Numbers
from tutorial_pkg.connectors.postgres.tables import still_open

OID = 0x4005
RELATION = (
    b"R\0\0\x40\x05public\0t\0d\0\x02"
    b"\x01id\0\0\0\0\x14\xff\xff\xff\xff"
    b"\0x\0\0\0\0\x19\xff\xff\xff\xff"
)
BEGIN = b"B\0\0\0\0\x01s\xaa\xc8\0\x03\x03\xd2`P\x07\xd8\0\0\x02\xf4"
COMMIT = b"C\0\0\0\0\0\x01s\xaa\xc8\0\0\0\0\x01s\xaa\xf8\0\x03\x03\xd2`P\x07\xd8"
INSERT = b"I\0\0\x40\x05N\0\x02t\0\0\0\x0210n"
UPDATE = b"U\0\0\x40\x05K\0\x02t\0\0\0\x0210nN\0\x02t\0\0\0\x0211u"
WHOLE = b"U\0\0\x40\x05O\0\x02t\0\0\0\x0211t\0\0\0\x01aN\0\x02t\0\0\0\x0212u"
DELETE = b"D\0\0\x40\x05K\0\x02t\0\0\0\x0212n"
TRUNCATE = b"T\0\0\0\x01\0\0\0\x40\x05"
ORIGIN = b"O\0\0\0\0\0\0\0\0other\0"


def decoder(start: int = 0, end: int = 2**62) -> Decoder:
    return Decoder(OID, start, end)


def rows(changes: Changes, values: Numbers) -> list[tuple[bytes | None, ...] | None]:
    """Return the rows, with `?` for `UNCHANGED`."""
    texts = zip(*map(changes.texts, values), strict=True)
    return [
        None
        if ABSENT in kinds
        else tuple(b"?" if k == UNCHANGED else t for k, t in zip(kinds, row, strict=True))
        for kinds, row in zip(values[:, 0].T.tolist(), texts, strict=True)
    ]


def test_each_kind_of_change() -> None:
    messages = [BEGIN, ORIGIN, RELATION, INSERT, UPDATE, WHOLE, DELETE, TRUNCATE, COMMIT]
    [changes] = decoder().changes(messages)
    before, after = (rows(changes, values) for values in changes.tuples())
    assert list(zip(map(chr, changes.kinds), before, after, strict=True)) == [
        ("I", None, (b"10", None)),
        ("U", (b"10", None), (b"11", b"?")),
        ("U", (b"11", b"a"), (b"12", b"a")),
        ("D", (b"12", None), None),
        ("T", None, None),
    ]
    assert changes.columns == ("id", "x")
    assert set(changes.oids()) == {OID}
    commits = zip(changes.positions, changes.ids, changes.committed, strict=True)
    [(position, number, micros)] = {tuple(map(int, commit)) for commit in commits}
    assert (position, number) == (0x173AAC8, 756)
    committed = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)
    assert committed.isoformat() == "2026-11-22T01:43:44.005080+00:00"


def test_state_survives_between_chunks() -> None:
    parts, whole = decoder(), decoder()
    messages = [BEGIN, RELATION, INSERT, RELATION, DELETE, COMMIT]
    decoded = [changes for message in messages for changes in parts.changes([message])]
    expected = list(whole.changes(messages))
    assert len(decoded) == len(expected) == 2
    for one, other in zip(decoded, expected, strict=True):
        assert (one.columns, *one.ids) == (other.columns, *other.ids)
        assert [*map(rows, [one] * 2, one.tuples())] == [*map(rows, [other] * 2, other.tuples())]


def test_transaction_without_changes() -> None:
    assert list(decoder().changes([BEGIN, COMMIT])) == []


def test_changes_outside_a_batch_are_dropped() -> None:
    for start, end, count in ((0, 0x173AAC8, 0), (0x173AAC8, 0x173AAC9, 1), (0x173AAC9, 2**62, 0)):
        changes = decoder(start, end).changes([BEGIN, RELATION, INSERT, COMMIT])
        assert sum(len(some.at) for some in changes) == count


def test_other_tables_do_not_change_the_columns() -> None:
    other = b"R\0\0\x40\x06public\0u\0d\0\x01\x01n\0\0\0\0\x14\xff\xff\xff\xff"
    [first, second] = decoder().changes([BEGIN, RELATION, INSERT, other, INSERT, COMMIT])
    assert second.columns == first.columns


def test_prepared_writers_stay_open() -> None:
    """A prepared transaction has lost the id of its session: `4/17`."""
    assert still_open({"4/17", "4/18"}, {"4/18", "4/19"}) == {"4/18"}
    assert still_open({"4/17"}, {"-1/700", "4/19"}) == {"-1/700"}
