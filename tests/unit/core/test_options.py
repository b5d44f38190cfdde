"""Options declared once: values, error texts, documentation."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tutorial_pkg.core.options import (
    REQUIRED,
    Option,
    Options,
    boolean,
    choice,
    integer,
    local_directory,
    not_empty,
)

OPTIONS = Options(
    "demo",
    [
        Option("path", not_empty, REQUIRED, "where the log lives", "a directory"),
        Option("port", integer(1, 65535), 11000, "the first port"),
        Option("maxRows", integer(1), None, "rows of a batch", "a number from 1"),
        Option("mode", choice("PERMISSIVE", "FAILFAST"), "PERMISSIVE", "what to do", "a mode"),
        Option("includeMetadata", boolean, False, "add columns"),
    ],
)


def test_values_are_parsed_and_defaults_filled_in():
    values = OPTIONS.parse({"path": "log", "port": "65535", "includeMetadata": "TRUE"})
    assert vars(values) == {
        "path": "log",
        "port": 65535,
        "maxRows": None,
        "mode": "PERMISSIVE",
        "includeMetadata": True,
    }


def test_case_of_names_is_ignored():
    values = OPTIONS.parse({"PATH": "log", "MODE": "failFast", "maxrows": "7", "queryName": "q"})
    assert (values.path, values.mode, values.maxRows) == ("log", "FAILFAST", 7)
    assert not hasattr(values, "queryName")  # Spark's own


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        *(("port", text, "1..65535") for text in ("0", "65536", "abc", "")),
        *(("maxRows", text, "a number from 1") for text in ("0", "1_000", "１２", " 7", "1" * 30)),
        ("mode", "LENIENT", "a mode"),
        ("includeMetadata", "yes", "true or false"),
        ("path", " ", "a directory"),
    ],
)
def test_wrong_value_is_named(name, text, allowed):
    with pytest.raises(ValueError) as error:
        OPTIONS.parse({"path": "log", name: text})
    assert str(error.value) == f"format `demo`: option `{name}` must be {allowed}, got {text!r}"


def test_missing_option_is_explained():
    with pytest.raises(ValueError, match="`path` is missing; give a directory: where the log liv"):
        OPTIONS.parse({"port": "11000"})


def test_local_directory_is_absolute(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert local_directory("~/log") == local_directory("log") == str(tmp_path / "log")
    assert local_directory(f"file:{tmp_path}/log") == str(tmp_path / "log")
    assert local_directory(f"file://{tmp_path}/log") == str(tmp_path / "log")
    assert local_directory("16:30") == str(tmp_path / "16:30")


@pytest.mark.parametrize("text", ["s3a://bucket/log", "hdfs:/log", ""])
def test_remote_path_is_refused(text):
    with pytest.raises(ValueError):
        local_directory(text)


def test_unknown_option_gets_a_suggestion():
    with pytest.raises(ValueError, match=r"unknown option `prot`; did you mean `port`\?"):
        OPTIONS.parse({"path": "log", "prot": "1"})
    with pytest.raises(ValueError, match=r"`zzz`; It takes `path`, `port`, `maxRows`,"):
        OPTIONS.parse({"path": "log", "zzz": "1"})
    with pytest.raises(AttributeError, match=r"`max_rows` is declared; did you mean `maxRows`\?"):
        OPTIONS.parse({"path": "log"}).max_rows  # noqa: B018


# ---- A family of options -------------------------------------------------------------------------

FAMILY = Options("demo", [Option("client.*", integer(1), None, "for the client")])


def test_family_takes_its_prefix():
    values = FAMILY.parse({"client.Fetch.Size": "5", "CLIENT.wait": "7"})
    assert values == SimpleNamespace(**{"client.*": {"fetch.size": 5, "wait": 7}})
    assert FAMILY.parse({}) == SimpleNamespace(**{"client.*": {}})


@pytest.mark.parametrize("name", ["client", "clients.x", "other"])
def test_similar_prefix_is_refused(name):
    with pytest.raises(ValueError, match=f"unknown option `{name}`"):
        FAMILY.parse({name: "1"})
