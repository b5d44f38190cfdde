"""Our own connectors: what they import, and that nothing they pickle or raise holds a secret."""

from __future__ import annotations

import ast
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

CONNECTORS = Path(tutorial_pkg.connectors.__path__[0])
ROW = StructType().add("id", LongType())
VALUE = StructType().add("value", StringType())
DATA = StructType().add("data", StringType())


def imported(file: Path) -> Iterator[str]:
    """Yield the names that a file imports, also within functions."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_connectors_use_only_public_names_of_the_builder() -> None:
    public = {f"tutorial_pkg.builder.{name}" for name in builder.__all__}
    for file in CONNECTORS.rglob("*.py"):
        used = {name for name in imported(file) if name.startswith("tutorial_pkg.builder.")}
        assert used <= public, file


def test_error_names_the_missing_client() -> None:
    clients = {
        "PostgresDataSource": "psycopg",
        "KafkaDataSource": "confluent_kafka",
        "NatsDataSource": "nats",
        "ObjectsDataSource": "obstore",
        "DeltaDataSource": "deltalake",
    }
    code = (
        "import sys, tutorial_pkg\n"
        f"for name, client in {clients}.items():\n"
        "    sys.modules[client] = None\n"
        "    try: getattr(tutorial_pkg, name)({}).schema()\n"
        "    except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for line, client in zip(done.stdout.splitlines(), clients.values(), strict=True):
        assert f"needs the package {client}: pip install 'tutorial_pkg[" in line


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
def test_readers_and_writers_hold_no_secret(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark pickles them, and sends them to processes that may have another environment."""
    monkeypatch.setenv("HUSH", "hunter2")
    made = MADE[what]()
    assert b"hunter2" not in cloudpickle.dumps(made)
    assert b"HUSH" in cloudpickle.dumps(made)  # it did look at the options


class Held:
    """A connection, which knows the secret, and cannot travel."""

    def __init__(self, options: Any) -> None:
        self.password, self.lock = options.password.reveal(), threading.Lock()


def test_planned_batch_holds_no_connection_and_no_secret(
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
def test_connection_error_shows_no_secret(
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
def test_wrong_address_is_not_quoted(scheme: str, rest: str) -> None:
    with pytest.raises(Exception, match=r"option `url` is not (the|an) address") as error:
        ADDRESSED[scheme](f"{scheme}://{rest}").initialOffset()
    assert "ter2" not in "".join(traceback.format_exception(error.value))
