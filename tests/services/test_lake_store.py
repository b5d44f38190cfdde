"""Formats `objects` and `delta_py` on a real S3 server, and on one that makes trouble; no Spark."""

from __future__ import annotations

import random
import resource
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql.types import LongType, StringType, StructType

from tests.services.proxy import troubled
from tests.unit.delta.test_delta import Query as DeltaQuery
from tests.unit.objects.folders import Query, options_of, rows, stream
from tutorial_pkg.connectors.objects.options import WRITE
from tutorial_pkg.connectors.store import Store
from workbook.services import S3Server

SOME = StructType().add("id", LongType()).add("value", StringType())


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """An address of its own in a bucket that is there."""
    url = f"s3://lake/{uuid.uuid4().hex}"
    store_at(url, s3.uri).write("_there", b"")
    return url


def store_at(url: str, endpoint: str, **given: object) -> Store:
    return Store(options_of(url, WRITE, endpoint=endpoint, **given), url)


def chance(kind: str, share: float = 0.3) -> Callable[[str, str], str | None]:
    """Trouble with some requests; never twice in a row, so that it passes."""
    numbers, last = random.Random(28), [None]

    def trouble(command: str, path: str) -> str | None:
        answer = kind if last[0] is None and numbers.random() < share else None
        last[0] = answer
        return answer

    return trouble


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["lost", "503", "slow", "cut"])
def test_trouble_on_the_way_loses_nothing_and_doubles_nothing(
    s3: S3Server, bucket: str, kind: str
) -> None:
    with troubled(s3.uri, chance(kind)) as (endpoint, seen):
        query = Query(bucket, endpoint=endpoint)
        run = stream(bucket, endpoint=endpoint, format="jsonl", notes=f"{bucket}-notes")
        found = []
        for batch in range(20):
            query.write(batch, [f"{batch}-a"], [f"{batch}-b"])
            if batch % 4 == 3:
                found += run.rows()
        assert kind in seen
    wanted = Counter(f"{batch}-{task}" for batch in range(20) for task in "ab")
    assert Counter(found) == wanted
    got = rows(bucket, endpoint=s3.uri, format="jsonl")
    assert Counter(row["value"] for row in got) == wanted


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["lost", "503", "slow"])
def test_delta_commits_once_whatever_happens_on_the_way(
    s3: S3Server, bucket: str, kind: str
) -> None:
    with troubled(s3.uri, chance(kind)) as (endpoint, seen):
        for mode, more in (("append", {}), ("upsert", {"key": "id"})):
            query = DeltaQuery(f"{bucket}/{mode}", mode=mode, endpoint=endpoint, **more)
            for batch in range(5):
                query.write(batch, [(batch, "a")], [(batch + 100, "b")])
        assert kind in seen
    for mode in ("append", "upsert"):
        assert ids_of(f"{bucket}/{mode}", s3) == [*range(5), *range(100, 105)]


@pytest.mark.soak  # the answers that are lost above are its quick part
def test_a_killed_server_is_waited_for(s3: S3Server, bucket: str) -> None:
    query = Query(bucket, endpoint=s3.uri)
    query.write(0, ["a"])
    handle = query.upload(1, 0, ["b"])
    table = DeltaQuery(f"{bucket}/t", endpoint=s3.uri)
    written = table.upload(0, 0, [(7, "a")])
    s3.kill()
    impatient = store_at(bucket, s3.uri, waitSeconds=1)
    with pytest.raises(ConnectionError, match=r"fails for 1 s \(option `waitSeconds`\)"):
        impatient.listing()
    with ThreadPoolExecutor() as pool:  # both commits begin while it is away
        done = pool.submit(query.commit, 1, [handle]), pool.submit(table.commit, 0, [written])
        s3.restart()
        for each in done:
            each.result()
    got = rows(bucket, endpoint=s3.uri, format="jsonl")
    assert Counter(row["value"] for row in got) == Counter("ab")
    assert ids_of(f"{bucket}/t", s3) == [7]


@pytest.mark.parametrize("kind", ["503", "full", "lost", "interrupted"])
def test_an_upload_that_never_succeeds_leaves_nothing_to_see(
    s3: S3Server, bucket: str, kind: str
) -> None:
    """Overloaded for ever, a full disk, a line that breaks behind each object."""

    def never(command: str, path: str) -> str | None:
        return kind if command == "PUT" and "part-" in path and "/open/" not in path else None

    with troubled(s3.uri, never) as (endpoint, _):
        query = Query(bucket, endpoint=endpoint, waitSeconds=1)
        with pytest.raises(ConnectionError):
            query.upload(0, 0, ["a"])
    Query(bucket, endpoint=s3.uri).write(0, ["a"])
    got = rows(bucket, endpoint=s3.uri, format="jsonl")
    assert [row["value"] for row in got] == ["a"]
    assert not store_at(bucket, s3.uri).listing("_manifests/11112222-3333/open")[1:]


def test_credentials_that_are_wrong_or_have_expired_say_so(
    s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "expired")
    with pytest.raises(PermissionError, match="are the credentials right, not expired") as told:
        store_at(bucket, s3.uri).read("_there")
    assert "expired" not in str(told.value).replace("not expired", "")
    with pytest.raises(PermissionError, match="are the credentials right, not expired"):
        store_at(bucket, s3.uri).listing()
    with pytest.raises(ConnectionError, match=r"SignatureDoesNotMatch|AccessDenied|403"):
        DeltaQuery(bucket, endpoint=s3.uri)


def test_credentials_that_expire_end_the_query_and_new_ones_go_on(
    s3: S3Server, bucket: str
) -> None:
    expired: list[str | None] = [None]
    with troubled(s3.uri, lambda *_: expired[0]) as (endpoint, _):
        query = Query(bucket, endpoint=endpoint)
        run = stream(bucket, endpoint=endpoint, format="jsonl", notes=f"{bucket}-notes")
        query.write(0, ["a"])
        found = run.rows()
        expired[0] = "expired"
        for work in (lambda: query.upload(1, 0, ["b"]), run.rows):
            with pytest.raises(Exception, match=r"refuses: .*ExpiredToken.*not expired"):
                work()
        expired[0] = None
        query.write(1, ["b"])
        again = stream(
            bucket, run.offset, endpoint=endpoint, format="jsonl", notes=f"{bucket}-notes"
        )
        assert found + again.rows() == ["a", "b"]


def test_an_address_with_the_number_of_an_error_is_waited_for(s3: S3Server) -> None:
    with troubled(s3.uri, lambda *_: "full") as (endpoint, _):
        store = store_at("s3://lake/404", endpoint, waitSeconds=1)
        for work in (lambda: store.write("403", b""), store.listing):
            with pytest.raises(ConnectionError, match=r"fails for 1 s .* status code: 507 Insuff"):
                work()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of another process: Linux")
def test_a_full_disk_of_the_server_ends_the_query_and_room_goes_on(
    s3: S3Server, bucket: str
) -> None:
    """The server cannot make any of its files longer, as on a disk that is full."""
    query = Query(bucket, endpoint=s3.uri, waitSeconds=1)
    table = DeltaQuery(f"{bucket}/t", endpoint=s3.uri, waitSeconds=1)
    query.write(0, ["a"])
    table.write(0, [(0, "a")])
    rest = [query.upload(1, 0, ["b"]), table.upload(1, 0, [(1, "b")])]
    with full_disk(s3):
        with pytest.raises(ConnectionError, match=r"fails for 1 s"):
            query.upload(1, 0, ["b"])
        for each, handle in zip((query, table), rest, strict=True):
            with pytest.raises((OSError, DeltaError)):
                each.commit(1, [handle])
    query.commit(1, [rest[0]])
    table.commit(1, [rest[1]])
    got = rows(bucket, endpoint=s3.uri, format="jsonl")
    assert Counter(row["value"] for row in got) == Counter("ab")
    assert ids_of(f"{bucket}/t", s3) == [0, 1]


@contextmanager
def full_disk(server: S3Server) -> Iterator[None]:
    limits = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        yield
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, limits)


def ids_of(url: str, server: S3Server) -> list[int]:
    settings = {"endpoint": server.uri, "allow_http": "true"}
    table = DeltaTable(url, storage_options=settings).to_pyarrow_table()
    return sorted(table.column("id").to_pylist())


def test_an_interrupted_upload_of_a_large_object_leaves_nothing_to_see(
    s3: S3Server, bucket: str
) -> None:
    """It goes up in parts, and never gets beyond its second one."""

    def never(command: str, path: str) -> str | None:
        return "interrupted" if "partNumber=2" in path else None

    large = random.Random(28).randbytes(12 << 20)
    with troubled(s3.uri, never) as (endpoint, seen):
        with pytest.raises(ConnectionError, match="fails for 1 s"):
            store_at(bucket, endpoint, waitSeconds=1).write("large", large)
        assert "interrupted" in seen
    store = store_at(bucket, s3.uri)
    assert [info.key for info in store.listing()] == ["_there"]
    assert store.write("large", large).size == len(store.read("large"))


def test_a_credential_in_the_program_is_refused(bucket: str) -> None:
    with pytest.raises(ValueError, match=r"must name an environment variable, as in `\$\{env:SEC"):
        store_at(bucket, "http://127.0.0.1:1", **{"store.secret_access_key": "plain"})


def test_a_store_whose_clock_is_an_hour_off_is_no_trouble(s3: S3Server, bucket: str) -> None:
    """Every other answer is from a clock that is an hour ahead: nothing here goes by times."""
    with troubled(s3.uri, chance("hour ahead", 0.5)) as (endpoint, seen):
        query = Query(bucket, endpoint=endpoint)
        run = stream(bucket, endpoint=endpoint, format="jsonl", notes=f"{bucket}-notes")
        found = []
        for batch in range(9):
            query.write(batch, [f"{batch}"])
            found += run.rows()
        assert found == [f"{batch}" for batch in range(9)]
        table = DeltaQuery(f"{bucket}/t", endpoint=endpoint)
        for batch in range(5):
            table.write(batch, [(batch, "a")])
        assert "hour ahead" in seen
    assert ids_of(f"{bucket}/t", s3) == [*range(5)]


def test_names_of_all_kinds_and_an_address_that_is_an_object(s3: S3Server, bucket: str) -> None:
    store = store_at(bucket, s3.uri)
    names = ["a b", "c%20d", "e%", "f#g?h", "ä", "日本", "x[1]", "{y}", "q'\"", "+", "%2F"]
    for name in names:
        store.write(f"in ä/{name}", f"{name}\n".encode())
    store.write("in", b"beside the folder\n")
    got = rows(f"{bucket}/in ä", endpoint=s3.uri)
    assert Counter(row["value"] for row in got) == Counter(names)
    with pytest.raises(Exception, match=r"/in is an object; give the address above it"):
        rows(f"{bucket}/in", endpoint=s3.uri)
    with pytest.raises(Exception, match=r"s3://no-bucket/in fails: .*NoSuchBucket"):
        rows("s3://no-bucket/in", endpoint=s3.uri)
    texts = [*names, "/", "a/b", ".", "..", "", None]
    query = Query(f"{bucket}/out", SOME, endpoint=s3.uri, format="parquet", partitionBy="value")
    query.write(0, [*enumerate(texts)])
    found = rows(f"{bucket}/out", SOME, endpoint=s3.uri, format="parquet")
    assert {row["id"]: row["value"] for row in found} == dict(enumerate(texts))
