"""Our own connectors: a missing client is named, and nothing they pickle or raise is a secret."""

from __future__ import annotations

import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import LongType, StringType, StructType

from tutorial_pkg import (
    DeltaDataSource,
    KafkaDataSource,
    NatsDataSource,
    ObjectsDataSource,
    PostgresDataSource,
    builder,
)

ROW = StructType().add("id", LongType())
VALUE = StructType().add("value", StringType())
DATA = StructType().add("data", StringType())


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
POSTGRES = {"url": f"postgresql://bob:{REFERENCE}@127.0.0.1:1/x", "table": "t", "waitSeconds": "0"}
KAFKA = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.sasl.password": REFERENCE}
KAFKA_READ = {**KAFKA, "kafkaConsumer.pollTimeoutMs": "100", "subscribe": "a"}
LAKE = {
    "path": "s3://bucket/prefix",
    "endpoint": "http://127.0.0.1:1",
    "store.access_key_id": REFERENCE,
    "store.secret_access_key": REFERENCE,
    "waitSeconds": "0",
}
NATS = {"url": f"nats://bob:{REFERENCE}@127.0.0.1:1", "token": REFERENCE, "timeoutSeconds": "1"}
NATS_READ = {**NATS, "stream": "S"}
QUEUE = {"mode": "queue", "consumer": "c", "path": "/x"}

MADE: list[tuple[Any, dict[str, str], str]] = [
    (PostgresDataSource, POSTGRES, "reader"),
    (PostgresDataSource, {**POSTGRES, "key": "id"}, "streamReader"),
    (PostgresDataSource, {**POSTGRES, "slot": "s"}, "streamReader"),
    (PostgresDataSource, POSTGRES, "writer"),
    (PostgresDataSource, POSTGRES, "streamWriter"),
    (KafkaDataSource, KAFKA_READ, "reader"),
    (KafkaDataSource, KAFKA_READ, "streamReader"),
    (KafkaDataSource, {**KAFKA, "topic": "a"}, "streamWriter"),
    (NatsDataSource, NATS_READ, "reader"),
    (NatsDataSource, NATS_READ, "streamReader"),
    (NatsDataSource, {**NATS_READ, **QUEUE}, "streamReader"),
    (NatsDataSource, {**NATS, "subject": "a"}, "streamWriter"),
    (ObjectsDataSource, LAKE, "reader"),
    (ObjectsDataSource, LAKE, "streamReader"),
    (DeltaDataSource, LAKE, "reader"),
    (DeltaDataSource, LAKE, "streamReader"),
]


def made(format_class: Any, options: dict[str, str], role: str) -> Any:
    if "ead" in role:
        return getattr(format_class(options), role)(ROW)
    schema = {KafkaDataSource: VALUE, NatsDataSource: DATA}.get(format_class, ROW)
    return getattr(format_class(options), role)(schema, False)


@pytest.mark.parametrize(("format_class", "options", "role"), MADE)
def test_readers_and_writers_hold_no_secret(
    format_class: Any, options: dict[str, str], role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark pickles them, and sends them to processes that may have another environment."""
    monkeypatch.setenv("HUSH", "hunter2")
    pickled = cloudpickle.dumps(made(format_class, options, role))
    assert b"hunter2" not in pickled
    assert b"HUSH" in pickled  # it did look at the options


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


CONNECTING: dict[str, Callable[[], Any]] = {
    "postgres": lambda: PostgresDataSource(POSTGRES).schema(),
    "kafka": lambda: made(KafkaDataSource, KAFKA_READ, "streamReader").initialOffset(),
    "nats": lambda: made(NatsDataSource, NATS_READ, "streamReader").initialOffset(),
    "objects": lambda: made(ObjectsDataSource, LAKE, "writer"),
    "delta_py": lambda: made(DeltaDataSource, LAKE, "writer"),
}


@pytest.mark.parametrize("name", CONNECTING)
@pytest.mark.parametrize("value", ["hunter2", "hunter2:@/ x"])
def test_connection_error_shows_no_secret(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even its causes do: Spark shows the whole stack trace."""
    monkeypatch.setenv("HUSH", value)
    with pytest.raises(Exception) as error:
        CONNECTING[name]()
    assert "hunter2" not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize("rest", ["bob:hunter2", "bob:hun/ter2@h", "bob:hun@ter2@[::1"])
def test_wrong_address_is_not_quoted(rest: str) -> None:
    postgres = PostgresDataSource({**POSTGRES, "url": f"postgresql://{rest}"})
    nats = made(NatsDataSource, {"stream": "S", "url": f"nats://{rest}"}, "streamReader")
    for ask in (postgres.schema, nats.initialOffset):
        with pytest.raises(Exception, match="option `url` is not") as error:
            ask()
        assert "ter2" not in "".join(traceback.format_exception(error.value))
