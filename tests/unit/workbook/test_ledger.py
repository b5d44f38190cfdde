"""The capstone's service: what its page of documentation says, and that it survives a kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import first_of_free_ports
from workbook.ledger import (
    BUSY,
    CUT,
    LOST,
    MOST_BYTES,
    LedgerServer,
    asked,
    booked,
    entries,
    request,
    start_ledger,
)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[LedgerServer]:
    with LedgerServer(tmp_path / "ledger.db") as server:
        yield server


def test_it_answers_as_documented(ledger: LedgerServer) -> None:
    at = ledger.address
    assert request(at, "LAST orders") == ["0"]
    assert request(at, "PAGE orders 0") == ["0"]
    assert request(at, "MEMO orders till-7") == ["-"]
    assert request(at, "BOOK orders till-7 2041 2", ["nuts", "two bolts "]) == ["2"]
    assert request(at, "BOOK orders till-8 1 60", ["screw"] * 60) == ["62"]
    assert request(at, "MEMO orders till-7") == ["2041"]
    assert request(at, "LAST orders") == ["62"]
    first, *lines = request(at, "PAGE orders 0")
    assert (first, len(lines), lines[0], lines[-1]) == ("50", 50, "62 screw", "13 screw")
    assert request(at, "PAGE orders 1")[-2:] == ["2 two bolts ", "1 nuts"]
    assert request(at, "PAGE orders 2") == ["0"]
    assert request(at, "LAST others") == ["0"]


@pytest.mark.parametrize(
    ("line", "lines", "text"),
    [
        ("", [], "this is no request"),
        ("LAST", [], "this is no request"),
        ("LAST orders now", [], "this is no request"),
        ("LAST  orders", [], "this is no request"),
        ("PAGE orders -1", [], "a page is a number"),
        ("BOOK orders me 1 0", [], "1 to 10000 lines"),
        ("BOOK orders me 1 10001", [], "1 to 10000 lines"),
        ("BOOK orders me 1 1", ["x" * (MOST_BYTES + 1)], "longer than 1000 bytes"),
        (f"LAST {'x' * 101}", [], "more than 100 letters"),
    ],
)
def test_a_wrong_request_is_told_why(
    ledger: LedgerServer, line: str, lines: list[str], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        request(ledger.address, line, lines)
    assert request(ledger.address, "LAST orders") == ["0"]


@pytest.mark.parametrize("trouble", [BUSY, LOST, CUT])
def test_our_client_books_once_whatever_befalls_it(ledger: LedgerServer, trouble: str) -> None:
    troubles = iter([trouble, "", trouble])
    ledger.trouble = lambda request: next(troubles, "")
    booked(ledger.address, "orders", "me", "1", ["nuts"])
    booked(ledger.address, "orders", "me", "1", ["nuts"])
    assert entries(ledger.address, "orders") == ["nuts"]


def test_a_lost_reply_is_booked_and_a_busy_ledger_does_nothing(ledger: LedgerServer) -> None:
    for trouble, last in ((LOST, "1"), (CUT, "2"), (BUSY, "2")):
        ledger.trouble = lambda request, trouble=trouble: trouble
        with pytest.raises(OSError):
            request(ledger.address, "BOOK orders me 1 1", ["nuts"])
        ledger.trouble = lambda request: ""
        assert request(ledger.address, "LAST orders") == [last]


def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    with start_ledger(tmp_path, first_of_free_ports()) as ledger:
        for number in range(20):  # with the usual trouble
            booked(ledger.address, "orders", "me", str(number), [f"order {number}"])
        ledger.kill()
        with pytest.raises(OSError):
            request(ledger.address, "LAST orders")
        ledger.restart()
        assert asked(ledger.address, "LAST orders") == ["20"]
        assert entries(ledger.address, "orders") == [f"order {number}" for number in range(20)]
