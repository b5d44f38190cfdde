"""The folders that a glob finds."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from tutorial_pkg.durable_log.handover import ReceivedLogs


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("*", ["a", "b", "q{"]),
        ("[ab]", ["a", "b"]),
        ("c/?", ["x"]),
        ("{a,{b,c/x}}", ["a", "b", "c/x"]),
        ("{a,z}", ["a"]),
        ("a", [""]),
        ("q{", [""]),  # the name of a folder
    ],
)
def test_globs_as_in_spark(tmp_path: Path, path: str, names: list[str]) -> None:
    for name in ("a", "b", "c/x", "q{"):
        (tmp_path / name).mkdir(parents=True)
        state = {"log": "id", "first": {"1": 0}, "end": {"1": 5}}
        (tmp_path / name / "received.json").write_text(json.dumps(state))
    (tmp_path / "without a receiver").mkdir()
    with closing(ReceivedLogs(str(tmp_path / path), "port")) as logs:
        end = logs.end()
        assert end.ids == dict.fromkeys(names, "id")
        assert end.positions == {f"{name}/1".lstrip("/"): 5 for name in names}
