"""Senders, the REST service, the ledger, and other helpers of lessons."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.conftest import first_of_free_ports
from workbook import ledger as ledgers
from workbook import senders
from workbook.batches import post
from workbook.ledger import BUSY, CUT, LOST, SLOW, append_once, entries, request, start_ledger
from workbook.lesson import outcome
from workbook.rerun import hide_answers
from workbook.senders import free_ports, wait_for_listener
from workbook.trading import OPENING, Trade


def fails(text: str) -> None:
    print("a page of traces", file=sys.stderr)
    raise ValueError(text)


def test_outcome_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(lambda: 3) == "it works"
    assert outcome(lambda: fails("too many. Please do less")) == "ValueError: too many"
    assert capsys.readouterr().err == ""


def test_spark_never_sees_a_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    monkeypatch.setattr(os, "utime", lambda *_: names.extend(f.name for f in tmp_path.iterdir()))
    post(tmp_path, [[Trade(OPENING, "TREE", 1900, 1)]])
    assert names == [".00000.draft"]
    assert [file.name for file in tmp_path.iterdir()] == ["00000.json"]


def test_answers_are_folded_until_their_explanation() -> None:
    texts = ["x", "**Predict:** what?", "x", "x", "**What just happened?** That.", "x"]
    output = new_output("stream", text="the answer")
    cells = [
        new_code_cell(t, outputs=[output]) if t == "x" else new_markdown_cell(t) for t in texts
    ]
    cells.insert(2, new_code_cell("without an output"))
    hide_answers(new_notebook(cells=cells))
    folded = [cell.metadata.get("jupyter", {}).get("outputs_hidden", False) for cell in cells]
    assert folded == [False, False, False, True, True, False, False]


# ---- Senders -------------------------------------------------------------------------------------


def test_free_ports_belong_to_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_ports()
    command = "from workbook.senders import free_ports; print(free_ports())"
    other = subprocess.run([sys.executable, "-c", command], capture_output=True, check=True)
    assert int(other.stdout) != port
    monkeypatch.setattr(senders, "is_free", lambda port: False)
    # Ports that were tried stay reserved: all 21,000 would stop the notebooks that run now.
    monkeypatch.setattr(senders, "LAST_PORT", senders.FIRST_PORT + 10)
    with pytest.raises(OSError, match="no 2 consecutive free ports"):
        free_ports(2)


def test_listener_is_waited_for() -> None:
    class Ended:
        isActive = False

        def exception(self) -> Exception:
            return OSError("no such address")

    port = free_ports()
    with pytest.raises(RuntimeError, match="no such address"):
        wait_for_listener(port, Ended())
    with socket.create_server(("127.0.0.1", port)):
        wait_for_listener(port, Ended())


# ---- The ledger ----------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [BUSY, LOST, CUT])
def test_ledger_appends_once_in_trouble(tmp_path: Path, trouble: str) -> None:
    with ledgers.LedgerServer(tmp_path / "ledger.db") as server:
        troubles = iter([trouble, "", trouble])
        server.trouble = lambda request: next(troubles, "")
        for _ in range(2):
            append_once(server.address, "orders", "me", "1", ["nuts"])
        assert entries(server.address, "orders") == ["nuts"]


def test_ledger_drops_abandoned_append(tmp_path: Path) -> None:
    with ledgers.LedgerServer(tmp_path / "ledger.db") as server:
        server.trouble = lambda request: SLOW
        host, port = server.address.split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"APPEND orders me 1 1\nnuts\n")
        time.sleep(2 * ledgers.SLOW_SECONDS)
        assert request(server.address, "MEMO orders me") == ["-"]


def test_ledger_survives_a_kill(tmp_path: Path) -> None:
    with start_ledger(tmp_path, first_of_free_ports()) as ledger:
        texts = [f"order {number}" for number in range(60)]  # more than a page, in usual trouble
        for number, text in enumerate(texts):
            append_once(ledger.address, "orders", "me", str(number), [text])
        ledger.kill()
        ledger.restart()
        assert entries(ledger.address, "orders") == texts
