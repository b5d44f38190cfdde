"""Messages of the decoder, as a server sent them, and what is made of them."""

from __future__ import annotations

from tutorial_pkg.connectors.postgres.pgoutput import Change, Decoder, Transaction, Unchanged

RELATION = (
    b"R\0\0\x40\x05public\0t\0d\0\x02"
    b"\x01id\0\0\0\0\x14\xff\xff\xff\xff"
    b"\0x\0\0\0\0\x19\xff\xff\xff\xff"
)
BEGIN = b"B\0\0\0\0\x01s\xaa\xc8\0\x03\x03\xd2`P\x07\xd8\0\0\x02\xf4"
COMMIT = b"C\0\0\0\0\0\x01s\xaa\xc8\0\0\0\0\x01s\xaa\xf8\0\x03\x03\xd2`P\x07\xd8"
INSERT = b"I\0\0\x40\x05N\0\x02t\0\0\0\x0210n"
UPDATE = b"U\0\0\x40\x05K\0\x02t\0\0\0\x0210nN\0\x02t\0\0\0\x0211u"
DELETE = b"D\0\0\x40\x05K\0\x02t\0\0\0\x0211n"
TRUNCATE = b"T\0\0\0\x01\0\0\0\x40\x05"
ORIGIN = b"O\0\0\0\0\0\0\0\0other\0"


def decoded(*messages: bytes) -> list[tuple[Transaction, Change]]:
    return list(Decoder().changes(messages))


def test_each_kind_of_change() -> None:
    found = decoded(BEGIN, ORIGIN, RELATION, INSERT, UPDATE, DELETE, TRUNCATE, COMMIT)
    assert [(c.operation, c.before, c.after) for _, c in found] == [
        ("insert", None, [b"10", None]),
        ("update", [b"10", None], [b"11", Unchanged]),
        ("delete", [b"11", None], None),
        ("truncate", None, None),
    ]
    assert {c.relation.columns for _, c in found} == {("id", "x")}
    assert {c.relation.types for _, c in found} == {(20, 25)}
    [transaction] = {t for t, _ in found}
    assert (transaction.position, transaction.id) == (0x173AAC8, 756)
    assert transaction.committed.isoformat() == "2026-11-22T01:43:44.005080+00:00"


def test_a_transaction_without_changes() -> None:
    assert decoded(BEGIN, COMMIT) == []
