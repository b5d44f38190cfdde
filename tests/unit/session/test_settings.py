"""Spark's settings: which source of a setting wins, and what a cluster keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutorial_pkg import start_spark
from tutorial_pkg.session.settings import (
    cores_of,
    named_outside,
    settings_for,
    submit_words,
)

CLUSTER = "spark://10.0.0.5:7077"
EXTENSIONS = "spark.sql.extensions.test.loadFromCp"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_LOCAL_IP", "SPARK_REMOTE", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))


def test_submit_arguments_win_over_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert named_outside() is None
    (tmp_path / "spark-defaults.conf").write_text("# usual\nspark.master  local[4]\n")
    assert named_outside() == "local[4]"
    (tmp_path / "own.conf").write_text("spark.master=local[3]\n")
    arguments = f"--properties-file {tmp_path}/own.conf pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    assert named_outside() == "local[3]"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master 'local[5]' pyspark-shell")
    assert named_outside() == "local[5]"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.master=local[6] pyspark-shell")
    assert named_outside() == "local[6]"


def test_caller_wins_over_the_environment() -> None:
    outside = {"spark.a": "outside", "spark.b": "outside", "spark.sql.session.timeZone": "CET"}
    settings = settings_for({"spark.master": "local[2]", "spark.b": "caller"}, outside)
    names = ("spark.a", "spark.b", "spark.sql.session.timeZone", "spark.driver.host")
    assert [settings[name] for name in names] == ["outside", "caller", "CET", "127.0.0.1"]


@pytest.mark.parametrize(
    ("given", "outside", "name"),
    [
        ({"spark.app.name": "report"}, "pyspark-shell", "report"),
        ({"spark.app.name": "report"}, "job.py", "report"),
        ({}, "job.py", "job.py"),
        ({}, "pyspark-shell", "workbook"),
    ],
)
def test_app_name_of_the_call_wins(given: dict[str, str], outside: str, name: str) -> None:
    settings = settings_for(given, {"spark.master": "local", "spark.app.name": outside})
    assert settings["spark.app.name"] == name


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[8]", 8), ("local[8, 3]", 8), ("local[*]", 5), ("local[*, 3]", 5)],
)
def test_local_master_names_its_cores(
    master: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    assert cores_of(master) == cores


def test_cluster_keeps_its_own_settings() -> None:
    assert settings_for({"spark.master": CLUSTER}, {}) == {
        "spark.master": CLUSTER,
        "spark.app.name": "workbook",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
    }


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_loopback_master_gets_loopback_driver(host: str) -> None:
    settings = settings_for({"spark.master": f"spark://{host}:7077"}, {})
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"


@pytest.mark.parametrize("name", ["spark.driver.host", "spark.driver.bindAddress"])
def test_loopback_driver_is_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"spark.master": CLUSTER}
    with pytest.raises(ValueError, match=f"`{name}` is '127.0.0.1'"):
        settings_for({**cluster, name: "127.0.0.1"}, {})
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with pytest.raises(ValueError, match=r"`spark.driver.host` is '127.0.0.1'"):
        settings_for({"spark.master": "yarn"}, {})
    settings_for({**cluster, "spark.driver.host": "node1"}, {})


def test_jars_may_bring_extensions() -> None:
    local = {"spark.master": "local"}
    assert settings_for(local, {})[EXTENSIONS] == "false"
    for name in ("spark.jars", "spark.driver.extraClassPath"):  # also from `--jars` and the like
        assert EXTENSIONS not in settings_for({**local, name: "a.jar"}, {})
        assert EXTENSIONS not in settings_for(local, {name: "a.jar"})


def test_jvm_command_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-memory 2g pyspark-shell")
    given = {"spark.driver.memory": "8g", "spark.ui.enabled": "false", "spark.ssl.keyPassword": "x"}
    assert submit_words({"spark.master": "local[2]", **given}) == (
        "--driver-memory 2g --conf spark.driver.memory=8g --master 'local[2]' pyspark-shell"
    )


def test_spark_connect_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://somewhere")
    with pytest.raises(RuntimeError, match=r"Spark Connect \(sc://somewhere\)"):
        start_spark()
