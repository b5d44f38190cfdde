"""What our own connectors may use, and what of them travels: formats built by the public API."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import LongType, StringType, StructType

import tutorial_pkg.connectors
from tutorial_pkg import (
    DeltaDataSource,
    KafkaDataSource,
    NatsDataSource,
    ObjectsDataSource,
    PostgresDataSource,
    builder,
)

FOLDERS = {
    folder.name: folder
    for folder in Path(tutorial_pkg.connectors.__path__[0]).iterdir()
    if folder.is_dir() and list(folder.glob("*.py"))
}
ROW = StructType().add("id", LongType())
VALUE = StructType().add("value", StringType())
DATA = StructType().add("data", StringType())


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports, also within functions."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield str(node.module)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_connector_keeps_to_what_the_builder_shows(name: str) -> None:
    """Whoever has read its help can write such a connector; and none knows another one's files."""
    shown = {f"tutorial_pkg.builder.{each}" for each in builder.__all__}
    for file in FOLDERS[name].rglob("*.py"):
        for module in imported(file):
            hidden = module.startswith("tutorial_pkg.builder.") and module not in shown
            assert not hidden, f"{file} imports {module}"
            words = module.split(".")
            if words[:2] == ["tutorial_pkg", "connectors"] and words[2] != name:
                # `from other import Name`: what the other folder shows, in its `__init__`
                assert len(words) == 3 or words[3] in public(words[2]), f"{file} imports {module}"


def public(name: str) -> list[str]:
    shown: list[str] = importlib.import_module(f"tutorial_pkg.connectors.{name}").__all__
    return shown


def test_those_that_are_built_know_nothing_of_pyspark_s_readers_and_writers() -> None:
    """They build them; so there is no base class whose private parts they could use."""
    for name in ("postgres", "kafka", "nats", "objects", "delta"):
        for file in FOLDERS[name].rglob("*.py"):
            found = {each for each in imported(file) if "pyspark.sql.datasource." in each}
            assert found <= {"pyspark.sql.datasource.DataSource"}, file


@pytest.mark.parametrize(
    ("name", "extra", "package"),
    [
        ("PostgresDataSource", "postgres", "psycopg"),
        ("KafkaDataSource", "kafka", "confluent_kafka"),
        ("NatsDataSource", "nats", "nats"),
        ("ObjectsDataSource", "lake", "obstore"),
        ("DeltaDataSource", "lake", "deltalake"),
    ],
)
def test_without_its_client_a_format_has_its_help_and_says_what_to_install(
    name: str, extra: str, package: str
) -> None:
    code = (
        f"import sys; sys.modules['{package}'] = None; import tutorial_pkg\n"
        f"made = tutorial_pkg.{name}\n"
        "assert 'PerTrigger' in made.__doc__\n"
        "try: made({}).schema()\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    text = f"needs the package {package}: pip install 'tutorial_pkg[{extra}]'\n"
    assert done.stdout.endswith(text), done.stderr


# ---- Secrets -------------------------------------------------------------------------------------

REFERENCE = "${env:HUSH}"
POSTGRES = {"url": f"postgresql://bob:{REFERENCE}@127.0.0.1:1/x", "waitSeconds": "0"}
KAFKA = {
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.sasl.password": REFERENCE,
    "kafka.delivery.timeout.ms": "100",
    "kafkaConsumer.pollTimeoutMs": "100",
}
LAKE = {
    "path": "s3://bucket/prefix",
    "endpoint": "http://127.0.0.1:1",
    "store.access_key_id": REFERENCE,
    "store.secret_access_key": REFERENCE,
    "waitSeconds": "0",
}
NATS = {"url": f"nats://bob:{REFERENCE}@127.0.0.1:1", "token": REFERENCE, "timeoutSeconds": "1"}

MADE: dict[str, Callable[[], Any]] = {
    "postgres read": lambda: PostgresDataSource({**POSTGRES, "table": "t"}).reader(ROW),
    "postgres inserted": lambda: PostgresDataSource(
        {**POSTGRES, "table": "t", "key": "id"}
    ).streamReader(ROW),
    "postgres changes": lambda: PostgresDataSource(
        {**POSTGRES, "table": "t", "slot": "s"}
    ).streamReader(ROW),
    "postgres write": lambda: PostgresDataSource({**POSTGRES, "table": "t"}).writer(ROW, False),
    "postgres sink": lambda: PostgresDataSource({**POSTGRES, "table": "t"}).streamWriter(
        ROW, False
    ),
    "kafka read": lambda: _reading(KafkaDataSource, KAFKA, subscribe="a").reader(ROW),
    "kafka stream": lambda: _reading(KafkaDataSource, KAFKA, subscribe="a").streamReader(ROW),
    "kafka sink": lambda: _writing(KafkaDataSource, KAFKA, topic="a").streamWriter(VALUE, False),
    "nats read": lambda: NatsDataSource({**NATS, "stream": "S"}).reader(ROW),
    "nats stream": lambda: NatsDataSource({**NATS, "stream": "S"}).streamReader(ROW),
    "nats queue": lambda: NatsDataSource(
        {**NATS, "stream": "S", "mode": "queue", "consumer": "c", "path": "/x"}
    ).streamReader(ROW),
    "objects read": lambda: ObjectsDataSource(LAKE).reader(VALUE),
    "objects stream": lambda: ObjectsDataSource(LAKE).streamReader(VALUE),
    "delta_py read": lambda: DeltaDataSource(LAKE).reader(ROW),
    "delta_py stream": lambda: DeltaDataSource(LAKE).streamReader(ROW),
    "nats sink": lambda: NatsDataSource({**NATS, "subject": "a"}).streamWriter(DATA, False),
}


def _reading(kind: Any, options: dict[str, str], **more: str) -> Any:
    return kind({k: v for k, v in options.items() if "delivery" not in k} | more)


def _writing(kind: Any, options: dict[str, str], **more: str) -> Any:
    return kind({k: v for k, v in options.items() if "poll" not in k} | more)


@pytest.mark.parametrize("what", MADE)
def test_no_reader_and_no_writer_holds_what_a_variable_holds(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Spark pickles, and sends to processes that may have another environment."""
    monkeypatch.setenv("HUSH", "hunter2")
    made = MADE[what]()
    assert b"hunter2" not in cloudpickle.dumps(made)
    assert b"HUSH" in cloudpickle.dumps(made)  # it did look at the options


class Held:
    """A connection, which knows the secret, and cannot travel."""

    def __init__(self, options: Any) -> None:
        self.password, self.lock = options.password.reveal(), threading.Lock()


def test_a_batch_that_was_planned_holds_neither_connection_nor_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark pickles the reader after it has asked for the partitions."""
    monkeypatch.setenv("HUSH", "hunter2")
    declared = builder.SourceBuilder.replayable(
        "held",
        "id LONG",
        look=lambda context: {str(len(context.connection.password)): (0, 1)},
        read=lambda *_: [],
    )
    built: Any = declared.connect(Held).option("password", builder.secret, None, "").build()
    reader = built({"password": REFERENCE}).reader(ROW)
    [part] = reader.partitions()
    assert part.split == "7"
    assert b"hunter2" not in cloudpickle.dumps(reader)


ASKED: dict[str, Callable[[], Any]] = {
    "postgres read": lambda: PostgresDataSource({**POSTGRES, "table": "t"}).schema(),
    "kafka stream": lambda: MADE["kafka stream"]().initialOffset(),
    "nats stream": lambda: MADE["nats stream"]().initialOffset(),
    "objects write": lambda: ObjectsDataSource(LAKE).writer(VALUE, False),
    "delta_py write": lambda: DeltaDataSource(LAKE).writer(ROW, False),
}


@pytest.mark.parametrize("what", ASKED)
@pytest.mark.parametrize("value", ["hunter2", "hunter2:@/ x", None])
def test_an_error_of_who_connects_shows_no_secret(
    what: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that led to it: Spark shows the whole stack trace."""
    monkeypatch.delenv("HUSH", raising=False)
    if value is not None:
        monkeypatch.setenv("HUSH", value)
    with pytest.raises(Exception, match="HUSH" if value is None else ".") as error:
        ASKED[what]()
    assert "hunter2" not in "".join(traceback.format_exception(error.value))


ADDRESSED: dict[str, Callable[[str], Any]] = {
    "postgresql": lambda url: PostgresDataSource(
        {"url": url, "table": "t", "waitSeconds": "0"}
    ).schema(),
    "nats": lambda url: NatsDataSource({"url": url, "stream": "S"}).streamReader(ROW),
}


@pytest.mark.parametrize("scheme", ADDRESSED)
@pytest.mark.parametrize("rest", ["bob:hunter2", "bob:hun/ter2@h", "bob:hun@ter2@[::1"])
def test_an_address_that_is_none_is_not_quoted(scheme: str, rest: str) -> None:
    with pytest.raises(Exception, match=r"option `url` is not (the|an) address") as error:
        ADDRESSED[scheme](f"{scheme}://{rest}").initialOffset()
    assert "ter2" not in "".join(traceback.format_exception(error.value))
