"""Formats `objects` and `delta_py` on a real S3 server, and behind a proxy that makes trouble."""

from __future__ import annotations

import logging
import random
import uuid
from collections import Counter
from collections.abc import Callable

import pytest
from deltalake import DeltaTable

from tests.services.proxy import troubled
from tests.unit.delta.test_delta import Query as DeltaQuery
from tests.unit.objects.folders import Query, options_of, rows, stream
from tutorial_pkg.connectors.objects.options import WRITE
from tutorial_pkg.connectors.store import Store
from workbook.services import ServerProcess


@pytest.fixture
def bucket(s3: ServerProcess) -> str:
    """A new address in an existing bucket."""
    url = f"s3://lake/{uuid.uuid4().hex}"
    store_at(url, s3.uri).write("_there", b"")
    return url


def store_at(url: str, endpoint: str, **options: object) -> Store:
    return Store(options_of(url, WRITE, endpoint=endpoint, **options), url)


def published(bucket: str, s3: ServerProcess) -> Counter[str]:
    return Counter(row["value"] for row in rows(bucket, endpoint=s3.uri, format="jsonl"))


def ids_of(url: str, s3: ServerProcess) -> list[int]:
    settings = {"endpoint": s3.uri, "allow_http": "true"}
    table = DeltaTable(url, storage_options=settings).to_pyarrow_table()
    return sorted(table.column("id").to_pylist())


def sometimes(kind: str) -> Callable[[str, str], str | None]:
    """Return trouble for some requests, but never twice in a row, so that a retry helps."""
    numbers, last = random.Random(28), [None]

    def trouble(command: str, path: str) -> str | None:
        answer = kind if last[0] is None and numbers.random() < 0.3 else None
        last[0] = answer
        return answer

    return trouble


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["lost", "503", "slow", "cut"])
def test_network_trouble_loses_and_repeats_nothing(
    s3: ServerProcess, bucket: str, kind: str
) -> None:
    with troubled(s3.uri, sometimes(kind)) as (endpoint, seen):
        query = Query(bucket, endpoint=endpoint)
        run = stream(bucket, endpoint=endpoint, format="jsonl", notes=f"{bucket}-notes")
        read = []
        for batch in range(20):
            query.write(batch, [f"{batch}-a"], [f"{batch}-b"])
            if batch % 4 == 3:
                read += run.rows()
        for mode, more in (("append", {}), ("upsert", {"key": "id"})) if kind != "cut" else ():
            table = DeltaQuery(f"{bucket}/{mode}", mode=mode, endpoint=endpoint, **more)
            for batch in range(5):
                table.write(batch, [(batch, "a")], [(batch + 100, "b")])
            assert ids_of(f"{bucket}/{mode}", s3) == [*range(5), *range(100, 105)]
        assert kind in seen
    expected = Counter(f"{batch}-{task}" for batch in range(20) for task in "ab")
    assert Counter(read) == published(bucket, s3) == expected


@pytest.mark.parametrize("kind", ["full", "interrupted"])
def test_failed_upload_leaves_nothing_to_see(
    s3: ServerProcess, bucket: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each failure is logged while the query waits."""

    def trouble(command: str, path: str) -> str | None:
        return kind if command == "PUT" and "part-" in path and "/open/" not in path else None

    with troubled(s3.uri, trouble) as (endpoint, _):
        query = Query(bucket, endpoint=endpoint, waitSeconds=1)
        with caplog.at_level(logging.WARNING), pytest.raises(ConnectionError, match="for 1 s"):
            query.upload(0, 0, ["a"])
    assert "tried again" in caplog.text
    Query(bucket, endpoint=s3.uri).write(0, ["a"])
    assert published(bucket, s3) == Counter("a")
    assert not store_at(bucket, s3.uri).listing("_manifests/11112222-3333/open")[1:]


def test_wrong_credentials_are_named(
    s3: ServerProcess, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-wrong-secret")
    for work in (
        lambda: store_at(bucket, s3.uri).read("_there"),
        lambda: store_at(bucket, s3.uri).listing(),
        lambda: DeltaQuery(bucket, endpoint=s3.uri),
    ):
        with pytest.raises(PermissionError, match="credentials") as raised:
            work()
        assert "a-wrong-secret" not in str(raised.value)
    with pytest.raises(ValueError, match=r"\$\{env:SECRET_ACCESS_KEY\}"):
        store_at(bucket, s3.uri, **{"store.secret_access_key": "plain"})


def test_expired_credentials_end_a_query_that_resumes(s3: ServerProcess, bucket: str) -> None:
    expired: list[str | None] = [None]
    with troubled(s3.uri, lambda *_: expired[0]) as (endpoint, _):
        query = Query(bucket, endpoint=endpoint)
        options = {"endpoint": endpoint, "format": "jsonl", "notes": f"{bucket}-notes"}
        run = stream(bucket, **options)
        query.write(0, ["a"])
        read = run.rows()
        expired[0] = "expired"
        for work in (lambda: query.upload(1, 0, ["b"]), run.rows):
            with pytest.raises(Exception, match=r"refuses: .*ExpiredToken.*not expired"):
                work()
        expired[0] = None
        query.write(1, ["b"])
        assert read + stream(bucket, run.offset, **options).rows() == ["a", "b"]


def test_store_without_conditional_writes_is_refused(s3: ServerProcess, bucket: str) -> None:
    """Two drivers would overwrite each other's batches."""
    with troubled(s3.uri, lambda *_: "unconditional") as (endpoint, _):
        for work in (
            lambda: Query(f"{bucket}/out", endpoint=endpoint),
            lambda: DeltaQuery(f"{bucket}/t", endpoint=endpoint),
            lambda: stream(bucket, endpoint=endpoint),
        ):
            with pytest.raises(Exception, match="If-None-Match"):
                work()
    assert not store_at(f"{bucket}/out", s3.uri).find("_manifests/objects")


def test_names_of_all_kinds(s3: ServerProcess, bucket: str) -> None:
    store = store_at(bucket, s3.uri)
    names = ["a b", "c%20d", "e%", "f#g?h", "ä", "日本", "x[1]", "{y}", "q'\"", "+", "%2F"]
    for name in names:
        store.write(f"in ä/{name}", f"{name}\n".encode())
    store.write("in", b"beside the folder\n")
    read = rows(f"{bucket}/in ä", endpoint=s3.uri)
    assert Counter(row["value"] for row in read) == Counter(names)
    with pytest.raises(Exception, match="/in is an object"):
        rows(f"{bucket}/in", endpoint=s3.uri)
    with pytest.raises(Exception, match="NoSuchBucket"):
        rows("s3://no-bucket/in", endpoint=s3.uri)
