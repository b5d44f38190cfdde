"""The doctor: one line per check, the fix where something is wrong, and an exit code."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tutorial_pkg.session import doctor


def test_healthy_machine_passes_the_doctor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # a busy port is all right
        port = server.getsockname()[1]
        monkeypatch.setattr(doctor, "PORTS", range(port, port + 1))
        assert doctor.examine(quick=True) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[0] for line in lines] == ["✓"] * 5
    assert f"ports: {port} in use" in lines[-1]


def test_doctor_names_each_fix(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".work").write_text("a file where a folder should be")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert doctor.examine(quick=True) == 1
    text = capsys.readouterr().out
    assert "✗ java: Spark needs Java 17 or 21. Install it" in text
    assert "✗ disk: " in text
