"""The commands: python -m tutorial_pkg doctor | prepare | send | receive."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from tests.unit.network_lines.conftest import start  # noqa: F401
from tutorial_pkg.__main__ import main
from tutorial_pkg.connectors.network_lines.receiver import RECEIVER_OPTIONS


def test_no_arguments_list_the_commands(capsys) -> None:
    assert main([]) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in ("doctor", "prepare", "send", "receive"))


def test_receive_help_has_choices_and_defaults(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["receive", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for option in RECEIVER_OPTIONS:
        assert option.takes in text
        assert option.default is None or f"default {option.default}" in text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "give one of FILE and --follow PATH"),
        (["x", "--follow", "y"], "give one of FILE and --follow PATH"),
        (["--follow", "y"], "--follow needs a --name"),
        (["x", "--instance", "i"], "--instance needs the --name"),
        (["--follow", "y", "--name", "n", "--rate", "1"], "--rate is for a FILE"),
        (["x", "--rate", "0"], "more than 0"),
        (["-", "--name", "n"], "a sender with a --name needs a FILE"),
        (["x", "--tls-certificate", "c"], "--tls-ca is missing"),
        (["x", "--tls-ca", "/none"], "`ca`: /none cannot be used"),
        (["/none"], "No such file or directory: '/none'"),
    ],
)
def test_wrong_arguments_are_errors(arguments: list[str], expected: str, capsys) -> None:
    assert main(["send", *arguments]) == 1
    assert expected in capsys.readouterr().err


def test_send_reads_standard_input(start, monkeypatch, capsys) -> None:  # noqa: F811
    running = start()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"one\ntwo\n")))
    assert main(["send", "-", "--port", str(running.port)]) == 0
    assert running.lines() == [b"one", b"two"]
    assert capsys.readouterr().out == f"2 lines sent to 127.0.0.1:{running.port}\n"


def test_missing_extra_is_named(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    for module in ("observe.prometheus", "connectors.network_lines.metrics"):
        monkeypatch.delitem(sys.modules, f"tutorial_pkg.{module}", raising=False)
    assert main(["receive", str(tmp_path), "--port", "1", "--metrics", "1"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("receive: ")
    assert "pip install 'tutorial_pkg[metrics]'" in error
    assert error.count("\n") == 1
