"""Spark's settings: which source of a setting wins, and what a cluster keeps."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tutorial_pkg import start_spark
from tutorial_pkg.session import settings as module
from tutorial_pkg.session.settings import (
    cores_of,
    jvm_settings,
    master_for,
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


def test_caller_wins_over_submit_and_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert master_for(3, {}) == "local[3]"
    (tmp_path / "spark-defaults.conf").write_text("# usual\nspark.master  local[4]\n")
    assert master_for(3, {}) == "local[4]"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master 'local[5]' pyspark-shell")
    assert master_for(3, {}) == "local[5]"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.master=local[6] pyspark-shell")
    assert master_for(3, {}) == "local[6]"
    assert master_for(3, {"spark.master": "yarn"}) == "yarn"
    outside = {"spark.a": "outside", "spark.b": "outside", "spark.sql.session.timeZone": "CET"}
    settings = settings_for("local[2]", None, {"spark.b": "caller"}, outside)
    names = ("spark.a", "spark.b", "spark.sql.session.timeZone", "spark.driver.host")
    assert [settings[name] for name in names] == ["outside", "caller", "CET", "127.0.0.1"]


def test_app_name_of_the_call_wins() -> None:
    for outside in ("pyspark-shell", "job.py"):
        named = settings_for("local[2]", "report", {}, {"spark.app.name": outside})
        assert named["spark.app.name"] == "report"
    assert settings_for("local", None, {}, {"spark.app.name": "job"})["spark.app.name"] == "job"
    shell = {"spark.app.name": "pyspark-shell"}
    assert settings_for("local", None, {}, shell)["spark.app.name"] == "workbook"


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[8]", 8), ("local[8, 3]", 8), ("local[*]", 5)]
)
def test_shuffles_use_the_cores_of_the_master(
    master: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    assert cores_of(master) == cores
    shuffles = settings_for(master, None, {}, {})["spark.sql.shuffle.partitions"]
    assert shuffles == str(cores)


def test_cluster_keeps_its_own_settings() -> None:
    assert settings_for(CLUSTER, None, {}, {}) == {
        "spark.master": CLUSTER,
        "spark.app.name": "workbook",
        "spark.sql.session.timeZone": "UTC",
    }


def test_loopback_master_gets_loopback_driver() -> None:
    for master in ("spark://127.0.0.1:7077", "spark://localhost:7077", "spark://[::1]:7077"):
        settings = settings_for(master, None, {}, {})
        assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"


@pytest.mark.parametrize("name", ["spark.driver.host", "spark.driver.bindAddress"])
def test_loopback_driver_on_a_cluster_is_an_error(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=f"`{name}` is '127.0.0.1', which workers of"):
        settings_for(CLUSTER, None, {name: "127.0.0.1"}, {})
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with pytest.raises(ValueError, match="which workers of 'yarn' cannot reach"):
        settings_for("yarn", None, {}, {})
    settings_for(CLUSTER, None, {"spark.driver.host": "node1"}, {})


def test_extensions_are_searched_when_jars_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark.ml", raising=False)
    assert settings_for("local", None, {}, {})[EXTENSIONS] == "false"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--packages=a:b:1 pyspark-shell")
    assert EXTENSIONS not in settings_for("local", None, {}, {})
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
    assert EXTENSIONS not in settings_for("local", None, {"spark.jars": "a.jar"}, {})
    monkeypatch.setitem(sys.modules, "pyspark.ml", None)
    assert EXTENSIONS not in settings_for("local", None, {}, {})


def test_jvm_gets_the_caller_last_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-memory 2g pyspark-shell")
    given = {"spark.driver.memory": "8g", "spark.ui.enabled": "false", "spark.ssl.keyPassword": "x"}
    settings = jvm_settings("local[2]", given)
    assert "spark.ui.enabled" not in settings
    assert submit_words(settings) == (
        "--driver-memory 2g --conf spark.driver.memory=8g --master 'local[2]' pyspark-shell"
    )


def test_tcp_is_used_without_a_socket_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_for("local", None, {}, {})
    assert settings["spark.python.unix.domain.socket.enabled"] == "true"
    monkeypatch.setattr(module, "socket_folder", lambda: None)
    assert not [name for name in settings_for("local", None, {}, {}) if "unix" in name]


def test_spark_connect_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://somewhere")
    with pytest.raises(RuntimeError, match=r"Spark Connect \(sc://somewhere\)"):
        start_spark()
