"""Who has the last word on a setting, and what is left to a cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tutorial_pkg import start_spark
from tutorial_pkg.session.settings import (
    from_files_and_environment,
    parse_defaults,
    settings_for,
    submit_words,
)

ON_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
REMOTE = {"spark.master": "spark://10.0.0.5:7077"}


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_LOCAL_IP", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))


def test_alone_it_runs_here_with_the_cores_asked_for() -> None:
    settings = settings_for(None, 3, {}, {})
    assert settings["spark.master"] == "local[3]"
    assert settings["spark.app.name"] == "workbook"
    assert settings.items() >= ON_LOOPBACK.items()


def test_the_caller_comes_before_submit_and_submit_before_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "# a comment\nspark.a file\nspark.b=file\nspark.c : file\nspark.driver.memory\t5g\n"
    (tmp_path / "spark-defaults.conf").write_text(text)
    submit = (
        "--master local[7] --name 'a job' --conf spark.b=submit -c spark.c=submit pyspark-shell"
    )
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", submit)
    settings = settings_for(None, 2, from_files_and_environment(), {"spark.c": "caller"})
    found = [settings[name] for name in ("spark.a", "spark.b", "spark.c")]
    assert found == ["file", "submit", "caller"]
    assert settings["spark.driver.memory"] == "5g"
    assert (settings["spark.master"], settings["spark.app.name"]) == ("local[7]", "a job")


@pytest.mark.parametrize(
    ("master", "cores"),
    [(None, 2), ("local", 1), ("local[8]", 8), ("local[8, 3]", 8), ("local[*]", 5)],
)
def test_a_shuffle_has_the_cores_of_the_session(
    master: str | None, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their number stays with a checkpoint, so that it must not be that of another session."""
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    outside = {"spark.master": master} if master else {}
    assert settings_for(None, 2, outside, {})["spark.sql.shuffle.partitions"] == str(cores)
    own = {"spark.sql.shuffle.partitions": "7"}
    assert settings_for(None, 2, outside, own).items() >= own.items()


def test_a_name_given_in_the_call_comes_first() -> None:
    outside = {"spark.app.name": "job.py"}
    assert settings_for("report", 2, outside, {})["spark.app.name"] == "report"


def test_a_line_of_the_file_without_a_value_and_one_of_others_do_no_harm() -> None:
    assert parse_defaults("spark.a\nother.b 1\n\n! old\n") == {"spark.a": ""}


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        ("--driver-memory", "spark.driver.memory", "3g"),
        ("--driver-java-options", "spark.driver.extraJavaOptions", "-Da=1"),
        ("--driver-class-path", "spark.driver.extraClassPath", "a.jar:b.jar"),
        ("--driver-library-path", "spark.driver.extraLibraryPath", "/opt/lib"),
    ],
)
def test_an_option_of_submit_is_the_setting_that_it_stands_for(
    option: str, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for form in (f"{option} {value}", f"{option}={value}", f"--conf {name}=x {option} {value}"):
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--jars c.jar {form} pyspark-shell")
        assert from_files_and_environment() == {name: value}


def test_a_file_of_properties_takes_the_place_of_the_usual_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.a usual\nspark.b usual\n")
    (file := tmp_path / "mine").write_text("spark.a mine\nspark.master local[5]\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file '{file}' pyspark-shell")
    mine = {"spark.a": "mine", "spark.master": "local[5]"}
    assert from_files_and_environment() == mine
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS", f"--load-spark-defaults --properties-file='{file}' pyspark-shell"
    )
    assert from_files_and_environment() == {**mine, "spark.b": "usual"}


def test_what_spark_refuses_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("--conf", "--conf spark.a pyspark-shell", "--properties-file no pyspark-shell"):
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", text)
        assert from_files_and_environment() == {}


def test_what_a_session_decides_is_the_last_word_to_the_jvm() -> None:
    settings = {"spark.driver.memory": "8g", "spark.master": "local[2]", "spark.a": "b c"}
    assert submit_words("--driver-memory 2g --jars 'a b.jar' pyspark-shell", settings) == (
        "--driver-memory 2g --jars 'a b.jar' --conf spark.driver.memory=8g "
        "--conf 'spark.master=local[2]' --conf 'spark.a=b c' --master 'local[2]' pyspark-shell"
    )
    assert submit_words("--name x", {}) == "--name x", "Spark says what is missing"


@pytest.mark.parametrize("name", ["spark.authenticate.secret", "spark.ssl.keyPassword"])
def test_a_secret_is_on_no_command_line(name: str) -> None:
    words = submit_words("pyspark-shell", {name: "hunter2", "spark.a": "b"})
    assert words == "--conf spark.a=b pyspark-shell"


EXTENSIONS = "spark.sql.extensions.test.loadFromCp"


def test_no_extension_is_looked_for_where_none_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delitem(sys.modules, "pyspark.ml", raising=False)
    assert settings_for(None, 2, {}, {})[EXTENSIONS] == "false"
    assert EXTENSIONS not in settings_for(None, 2, {"spark.jars": "a.jar"}, {})
    assert settings_for(None, 2, {}, {EXTENSIONS: "true"})[EXTENSIONS] == "true"
    with monkeypatch.context() as submitted:
        submitted.setenv("PYSPARK_SUBMIT_ARGS", "--packages=a:b:1 pyspark-shell")
        assert EXTENSIONS not in settings_for(None, 2, {}, {})
    monkeypatch.setitem(sys.modules, "pyspark.ml", None)  # imported before the session
    assert EXTENSIONS not in settings_for(None, 2, {}, {})


def test_a_cluster_keeps_its_own_settings() -> None:
    settings = settings_for(None, 2, REMOTE, {})
    assert settings == {
        **REMOTE,
        "spark.app.name": "workbook",
        "spark.sql.session.timeZone": "UTC",
    }


def test_a_master_on_loopback_gets_a_driver_on_loopback() -> None:
    for master in ("spark://127.0.0.1:7077", "spark://localhost:7077", "spark://[::1]:7077"):
        settings = settings_for(None, 2, {}, {"spark.master": master})
        assert settings.items() >= ON_LOOPBACK.items()


REFUSED = [
    *(
        (
            {name: "127.0.0.1"},
            f"`{name}` is '127.0.0.1', which workers of 'spark://10.0.0.5:7077' cannot reach: set "
            "`spark.driver.host` to this machine's name or address in their network, and "
            "`spark.driver.bindAddress` to '0.0.0.0'",
        )
        for name in ("spark.driver.host", "spark.driver.bindAddress")
    ),
    (
        {"spark.submit.pyFiles": "a.zip,dist/mine.whl"},
        "`spark.submit.pyFiles` names 'dist/mine.whl', which PySpark would send and not import "
        "from: rename it to end with .zip. (This package needs none: it ships itself.)",
    ),
    (
        {"spark.submit.deployMode": "cluster"},
        "`spark.submit.deployMode` is 'cluster', and the driver is this Python: use 'client', or "
        "hand the script to `spark-submit --deploy-mode cluster` (not on standalone, where Spark "
        "has no such mode for Python)",
    ),
]


@pytest.mark.parametrize(("settings", "text"), REFUSED)
def test_what_spark_would_only_stumble_over_later_is_refused(
    settings: dict[str, str], text: str
) -> None:
    with pytest.raises(ValueError) as caught:
        settings_for(None, 2, REMOTE, settings)
    assert str(caught.value) == text


def test_an_environment_that_ties_the_driver_to_loopback_is_refused_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with pytest.raises(
        ValueError, match=r"`SPARK_LOCAL_IP` is '127.0.0.1', which workers of 'yarn'"
    ):
        settings_for(None, 2, {"spark.master": "yarn"}, {})
    settings_for(None, 2, REMOTE, {"spark.driver.host": "node1"})


def test_spark_connect_gets_a_word_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://somewhere")
    with pytest.raises(RuntimeError) as caught:
        start_spark()
    assert str(caught.value) == (
        "start_spark starts Spark in this process, and PySpark is set to Spark Connect "
        "(sc://somewhere). There, make the session yourself and register the formats: "
        "`spark = SparkSession.builder.remote(address).getOrCreate()`, `register(spark)`"
    )


def test_where_no_folder_takes_sockets_tcp_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_for(None, 2, {}, {})["spark.python.unix.domain.socket.enabled"] == "true"
    monkeypatch.setattr("tutorial_pkg.session.settings.socket_folder", lambda: None)
    assert not [name for name in settings_for(None, 2, {}, {}) if "unix" in name]
