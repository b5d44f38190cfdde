"""Each check accepts a right answer, and refuses wrong ones with a message that names the symptom.

Nbval runs every check on the notebook's own solution. Those that need Spark are in
`tests/integration/test_checks_with_spark.py`.
"""

from __future__ import annotations

import socket
from collections import Counter
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from obstore.exceptions import AlreadyExistsError

from workbook import checks
from workbook.checks import verdict
from workbook.watermarks import BEHIND, DELAY, LAG, LULL

NAMES = [name for name in vars(checks) if name.startswith("check_")]


@pytest.mark.parametrize("name", NAMES)
def test_answer_is_missing_or_of_another_kind(name: str) -> None:
    check = getattr(checks, name)
    assert check.__name__ == name
    more = [object] * (len(signature(check).parameters) - 1)
    assert not check(None, *more).answered
    if check.start:
        assert check.start in check(3, *more).message


def test_cell_that_raised_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    result = SimpleNamespace(error_in_exec=NameError("name 'x' is not defined"))
    shell = SimpleNamespace(last_execution_result=result)
    monkeypatch.setattr(verdict, "get_ipython", lambda: shell)
    found = checks.check_03_1(lambda data: data.rfind(b"\n") + 1)
    assert not found.answered
    assert "NameError: name 'x' is not defined" in found.message


def test_answer_that_remembers_is_refused() -> None:
    seen: list[str] = []

    def escape(item: str) -> str:
        seen.append(item)
        new = seen.count(item) == 1
        return item.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r") if new else ""

    assert "The second time" in checks.check_01_1(escape).message


# ---- Functions: a right answer, and wrong ones with a part of the message ------------------------


def follow(table: dict[str, int], change: Any) -> dict[str, int]:
    if change.before:
        table.pop(change.before.host, None)
    if change.after:
        table[change.after.host] = change.after.lines
    return table


def coalesced(events: Any, ports: Any, delay: float) -> list[Any]:
    newest: dict[str, float] = {}
    marks = []
    for port, time in events:
        newest[port] = max(time, newest.get(port, time))
        marks.append(min(newest.values()) - delay if len(newest) == len(ports) else None)
    return marks


def cut(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    *lines, rest = (rest + received).split(b"\n")
    return [line.decode() for line in lines], rest


def write_batch(folder: Path, batch: int, lines: Any, name: str = ".draft") -> None:
    with (folder / name).open("w") as file:
        file.writelines(f"{line}\n" for line in lines)
    (folder / name).replace(folder / f"batch-{batch}.csv")


def write_in_place(folder: Path, batch: int, lines: Any) -> None:
    (folder / f"batch-{batch}.csv").write_text("".join(f"{line}\n" for line in lines))


def alarms(batch: Any) -> list[str]:
    slow = batch.seconds["triggerExecution"] > 1
    behind = slow and batch.done_per_second < batch.in_per_second
    return ["behind"] * behind + ["late"] * bool(batch.late_rows)


def labeller(shop: Any, captures: bool = False) -> Any:
    name = shop.name

    def label(batches: Any) -> Any:
        for batch in batches:
            names = [f"{shop.name if captures else name}: {item}" for item in batch[0].to_pylist()]
            yield pa.record_batch({"item": names})

    return label if captures else label_of(name)


def label_of(name: str) -> Any:
    def label(batches: Any) -> Any:
        for batch in batches:
            yield pa.record_batch({"item": [f"{name}: {item}" for item in batch[0].to_pylist()]})

    return label


def publish(store: Any, name: str, content: bytes) -> bool:
    try:
        store.put(name, content, mode="create")
    except AlreadyExistsError:
        return bytes(store.get(name).bytes()) == content
    return True


def look_first(store: Any, name: str, content: bytes) -> bool:
    try:
        return bytes(store.get(name).bytes()) == content
    except FileNotFoundError:
        store.put(name, content)
        return True


def with_delay(seen: Any, now: float) -> float | None:
    waited = [time for clock, time in seen if clock <= now - DELAY]
    return max([max(time for _, time in seen) - LAG, *waited]) if seen else None


def with_lull(seen: Any, now: float) -> float | None:
    if not seen:
        return None
    highest = max(time for _, time in seen)
    risen = min(clock for clock, time in seen if time == highest)
    return highest - LAG + max(0, now - risen - LULL)


class SharePrice:
    accumulator, result = "cents LONG, shares LONG", "cents DOUBLE"

    def create(self) -> Any:
        return 0, 0

    def accumulate(self, sums: Any, row: Any) -> Any:
        return sums[0] + row.price * row.quantity, sums[1] + row.quantity

    def combine(self, left: Any, right: Any) -> Any:
        return left[0] + right[0], left[1] + right[1]

    def deduct(self, left: Any, right: Any) -> Any:
        return left[0] - right[0], left[1] - right[1]

    def finish(self, sums: Any) -> Any:
        return (sums[0] / sums[1],)


class TradePrice(SharePrice):
    def accumulate(self, sums: Any, row: Any) -> Any:
        return sums[0] + row.price, sums[1] + 1


class NoLaw(SharePrice):
    def deduct(self, left: Any, right: Any) -> Any:
        return left


def with_sector(batch: Any, connection: Any, where: str = "WHERE ticker IN ({})") -> Any:
    keys = batch["ticker"].unique().to_pylist()
    statement = f"SELECT ticker, sector FROM companies {where.format(', '.join('?' * len(keys)))}"
    rows = dict(connection.execute(statement, keys if where else []).fetchall())
    tickers = batch["ticker"].to_pylist()
    batch = batch.append_column("sector", pa.array(map(rows.get, tickers), pa.string()))
    return batch.append_column("known", pa.array([t in rows for t in tickers], pa.bool_()))


def unpaid(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    paid = {payment.order: payment.paid for payment in payments}
    over = [order for order in orders if order.time + within < watermark]
    in_time = {o.id for o in over if o.id in paid and o.time <= paid[o.id] <= o.time + within}
    return [order.id for order in over if order.id not in in_time]


def walk(context: Any) -> dict[str, tuple[int, int]]:
    start = (context.offset or {}).get("all", 0)
    while (following := page(context, start)["next"]) != start:
        start = following
    return {"all": (0, start)}


def gallop(context: Any) -> dict[str, tuple[int, int]]:
    """A better one: double the step until there is nothing, then bisect."""
    step, low = 1, (context.offset or {}).get("all", 0)
    while page(context, low + step)["readings"]:
        low, step = low + step, 2 * step
    high = low + step
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if page(context, middle)["readings"] else (low, middle)
    return {"all": (0, low)}


def page(context: Any, position: int) -> Any:
    import json
    from urllib.request import urlopen

    with urlopen(f"{context.options.url}/readings?from={position}") as response:
        return json.load(response)


def read_pages(context: Any, split: str, start: int, end: int) -> Any:
    while start < end:
        found = page(context, start)
        rows = [(one["id"], one["degrees"]) for one in found["readings"]]
        yield from (row for row in rows if row[0] < end)
        start = found["next"]


def one_page(context: Any, split: str, start: int, end: int) -> Any:
    return ((one["id"], one["degrees"]) for one in page(context, start)["readings"])


def patiently(ask: Any, sleep: Any, most: float = 30.0) -> Any:
    pause = 1.0
    while True:
        status, headers, content = ask()
        seconds = max(1.0, float(headers["Retry-After"] or pause))
        if status not in (429, 503) or seconds > most:
            return status, headers, content
        sleep(seconds)
        pause, most = 2 * pause, most - seconds


def repeated(checkpoint: Path) -> Any:
    import json

    numbers = [
        sorted(int(file.name) for file in (checkpoint / kind).iterdir() if file.name.isdigit())
        for kind in ("offsets", "commits")
    ]
    last = numbers[0][-1]
    if last in numbers[1]:
        return None
    ends = [
        json.loads((checkpoint / "offsets" / str(number)).read_text().splitlines()[-1])
        for number in numbers[0][-2:]
    ]
    return last, ends[0] if len(ends) > 1 else None, ends[-1]


def by_name(checkpoint: Path) -> Any:
    last = max(file.name for file in (checkpoint / "offsets").iterdir() if file.name.isdigit())
    return None if (checkpoint / "commits" / last).exists() else (int(last), None, None)


BEGIN = 1_600_000_000_000
CASES: list[tuple[str, Any, list[tuple[Any, str]]]] = [
    (
        "01_1",
        lambda item: item.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r"),
        [
            (lambda item: item.replace("\n", "\\n").replace("\r", "\\r"), "backslash"),
            (lambda item: item.replace("\n", "\\n").replace("\\", "\\\\"), "\\\\n"),
            (repr, "nothing else is escaped"),
        ],
    ),
    (
        "03_1",
        lambda data: data.rfind(b"\n") + 1,
        [
            (len, "returned 6; expected 4"),
            (lambda data: data.find(b"\n") + 1, "last"),
            (lambda data: len(data.decode(errors="ignore").rpartition("\n")[0]) + 1, "newline"),
        ],
    ),
    (
        "04_1",
        cut,
        [
            (lambda r, d: ((r + d).decode().splitlines(), b""), "only b'\\n' ends a line"),
            (lambda r, d: (d.decode().split("\n")[:-1], d.split(b"\n")[-1]), "codec can't decode"),
            (
                lambda r, d: (
                    [x.decode(errors="ignore") for x in cut_bytes(r, d)[0]],
                    cut_bytes(r, d)[1],
                ),
                "",
            ),
        ],
    ),
    (
        "05_2",
        lambda s, length=30, slide=10: [*range(s // slide * slide, s - length, -slide)],
        [
            (lambda s, length=30, slide=10: [s // slide * slide], "expected [0, 10, 20]"),
            (
                lambda s, length=30, slide=10: [*range(s // slide * slide, s - length - 1, -slide)],
                "not its end",
            ),
        ],
    ),
    (
        "06_1",
        coalesced,
        [
            (lambda e, p, d: [max(t for _, t in e[: n + 1]) - d for n in range(len(e))], "nothing"),
            (lambda e, p, d: coalesced(e, p, 5), "minus the delay"),
        ],
    ),
    ("07_1", repeated, [(by_name, "expected (2,"), (lambda checkpoint: None, "offsets/2")]),
    (
        "07_2",
        lambda saved, ports: {**{str(port): 0 for port in ports}, **saved},
        [
            (lambda saved, ports: {str(p): saved.get(str(p), 0) for p in ports}, "is gone"),
            (lambda saved, ports: {**saved, **{str(p): 0 for p in ports}}, "wins over 0"),
            (lambda saved, ports: {**dict.fromkeys(ports, 0), **saved}, "in JSON is a str"),
        ],
    ),
    (
        "08_1",
        write_batch,
        [
            (write_in_place, "written in place"),
            (lambda f, b, lines: write_batch(f, b, lines, "batch-draft.csv"), "not complete"),
            (lambda f, b, lines: write_batch(f, b, [*lines][:1]), "Readers see"),
        ],
    ),
    (
        "08_2",
        lambda sent, came: (Counter(sent) - Counter(came), Counter(came) - Counter(sent)),
        [
            (lambda sent, came: (dict.fromkeys({*sent} - {*came}, 1), {}), "expected"),
            (
                lambda sent, came: (Counter(came) - Counter(sent), Counter(sent) - Counter(came)),
                "First",
            ),
        ],
    ),
    (
        "13_1",
        (walk, read_pages),
        [
            (
                (lambda context: {"all": (0, page(context, 0)["next"])}, read_pages),
                "(0, 70)",
            ),
            ((walk, one_page), "From 0 to 250 `read` returned"),
        ],
    ),
    (
        "13_2",
        patiently,
        [
            (lambda ask, sleep: ask(), "slept for []"),
            (lambda ask, sleep: patiently(ask, sleep, 60), "30 s at most"),
        ],
    ),
    (
        "13_3",
        lambda context, row, number: f"{context.query}-{row.id}",
        [
            (
                lambda context, row, number: f"{context.query}-{context.index}-{number}",
                "Try row.id",
            ),
            (lambda context, row, number: str(hash(row.text)), "Try row.id"),
            (lambda context, row, number: context.query, "have one key"),
        ],
    ),
    (
        "14_1",
        follow,
        [
            (lambda t, c: t | ({c.after.host: c.after.lines} if c.after else {}), "delete"),
            (lambda t, c: follow(t, c) if c.before or c.after.host not in t else {}, "come again"),
        ],
    ),
    (
        "15_1",
        alarms,
        [
            (lambda batch: ["late"] * bool(batch.late_rows), "expected ['behind']"),
            (
                lambda batch: ["behind"] * (batch.done_per_second < batch.in_per_second),
                "expected ['late']",
            ),
        ],
    ),
    ("15_2", labeller, [(lambda shop: labeller(shop, captures=True), "captures the name only")]),
    (
        "16_1",
        lambda data, at: (data[at : data.rfind(b"\n") + 1], max(at, data.rfind(b"\n") + 1)),
        [
            (lambda data, at: (data[at:], len(data)), "half a line"),
            (
                lambda data, at: (data[: data.rfind(b"\n") + 1], data.rfind(b"\n") + 1),
                "the receiver",
            ),
        ],
    ),
    (
        "16_2",
        lambda frames: {name: at for name, at in frames if name is not None},
        [
            (dict, "has no name"),
            (lambda frames: {n: max(a for m, a in frames if m == n) for n, _ in frames}, "even if"),
        ],
    ),
    (
        "17_2",
        publish,
        [(look_first, "just before the put"), (lambda s, n, c: s.put(n, c) is None, "")],
    ),
    (
        "18_1",
        with_delay,
        [(lambda s, n: max(t for _, t in s) - LAG if s else None, "without the lag")],
    ),
    ("18_2", with_lull, [(with_delay, "it goes on with the clock")]),
    (
        "18_3",
        lambda seen, now: max([now - BEHIND, *(time - LAG for _, time in seen)]),
        [(lambda seen, now: now - BEHIND, "the lag gives more")],
    ),
    ("19_1", SharePrice, [(TradePrice, "30 times"), (NoLaw, "A law is broken")]),
    (
        "20_1",
        with_sector,
        [
            (lambda b, c: with_sector(b, c, ""), "this batch's tickers only"),
            (
                lambda b, c: pa.concat_batches(
                    [with_sector(b.slice(n, 1), c) for n in range(len(b))]
                ),
                "one is enough",
            ),
        ],
    ),
    (
        "20_2",
        unpaid,
        [
            (lambda o, p, w, m: [x.id for x in o if x.time + w < m], "a payment counts"),
            (lambda o, p, w, m: unpaid(o, p, w, m + w), "*before* the watermark"),
        ],
    ),
]


def cut_bytes(rest: bytes, received: bytes) -> tuple[list[bytes], bytes]:
    *lines, rest = (rest + received).split(b"\n")
    return lines, rest


@pytest.mark.parametrize(("name", "right", "wrong"), CASES, ids=[case[0] for case in CASES])
def test_check_of_function(name: str, right: Any, wrong: list[tuple[Any, str]]) -> None:
    check = getattr(checks, f"check_{name}")
    assert check(right).passed, check(right)
    for answer, symptom in wrong:
        found = check(answer)
        assert not found.passed
        assert symptom in found.message, found


def test_galloping_end_is_accepted() -> None:
    assert checks.check_13_1((gallop, read_pages)).passed


def test_files_at() -> None:
    def files_at(log: Any, version: int, first: int = 0) -> set[str]:
        files: set[str] = set()
        for commit in log[first : version + 1]:
            for action, file in commit:
                (files.add if action == "add" else files.discard)(file)
        return files

    assert checks.check_17_1(files_at).passed
    assert "in their order" in checks.check_17_1(lambda log, n: files_at(log, n, n)).message
    assert "in their order" in checks.check_17_1(lambda log, n: files_at(log, n - 1)).message


def test_delay() -> None:
    assert "more" in checks.check_05_1(1).message
    assert "less" in checks.check_05_1(10_000).message
    assert "whole seconds" in checks.check_05_1(1.5).message
    assert sum(checks.check_05_1(seconds).passed for seconds in range(200)) == 1


def test_heartbeat() -> None:
    assert checks.check_06_2(checks.a_heartbeat(BEGIN), BEGIN).passed
    for line, symptom in (
        (f"{BEGIN + 895_000},0.0,x", "second 870"),
        (f"{BEGIN + 915},0.0,x", "milliseconds"),
        ("x", "its time is null"),
    ):
        assert symptom in checks.check_06_2(line, BEGIN).message


# ---- The builder's functions ---------------------------------------------------------------------


class Mailbox:
    def __init__(self, context: Any) -> None:
        self.folder = Path(context.options.letters)
        self.handed: set[str] = set()

    def fill(self, buffer: Any) -> None:
        for name in sorted({letter.name for letter in self.folder.glob("*.txt")} - self.handed):
            buffer.add((self.folder / name).read_text(), token=name)
            self.handed.add(name)


def acknowledge(mailbox: Mailbox, names: Any) -> None:
    for name in names:
        (mailbox.folder / name).unlink(missing_ok=True)
    mailbox.handed.difference_update(names)


class Once(Mailbox):
    def snapshot(self) -> Any:
        return sorted(self.handed)

    def restore(self, snapshots: Any) -> None:
        for handed in snapshots:
            acknowledge(self, handed)


class Forgets(Once):
    def restore(self, snapshots: Any) -> None:
        """Nothing is restored."""


class Remembers(Once):
    def restore(self, snapshots: Any) -> None:
        self.handed = {name for handed in snapshots for name in handed}


class Feeds:
    def __init__(self, context: Any) -> None:
        self.next = dict.fromkeys("abcdef"[context.index :: context.count], 0)

    def fill(self, buffer: Any) -> None:
        self.next = {sensor: number + 1 for sensor, number in self.next.items()}


def restore(feeds: Feeds, snapshots: Any) -> None:
    for snapshot in snapshots:
        feeds.next.update({s: n for s, n in snapshot.items() if s in feeds.next})


def test_mailbox() -> None:
    assert checks.check_09_1(Once, Mailbox, acknowledge).passed
    assert "must name them" in checks.check_09_1(Forgets, Mailbox, acknowledge).message
    assert "there are still" in checks.check_09_1(Remembers, Mailbox, acknowledge).message
    assert "class Once(Mailbox)" in checks.check_09_1(Feeds, Mailbox, acknowledge).message


def test_feeds() -> None:
    assert checks.check_09_2(restore, Feeds).passed
    for wrong in (
        lambda feeds, snapshots: None,
        lambda feeds, snapshots: feeds.next.update(snapshots[0]),
    ):
        assert "*all* snapshots" in checks.check_09_2(wrong, Feeds).message


UPSERT = "INSERT INTO prices VALUES (%s, %s) ON CONFLICT (item) DO "
PUBLISH = "INSERT INTO orders SELECT item, euros FROM staged WHERE handle = ANY(%s)"


def upsert(action: str) -> Any:
    return lambda connection, rows: connection.cursor().executemany(UPSERT + action, rows)


def tidy(clean: str, note: bool = True) -> Any:
    def publish_handles(context: Any, handles: Any) -> None:
        batch = [context.query, context.batch]
        with psycopg.connect(context.options.uri) as transaction:
            insert = "INSERT INTO done VALUES (%s, %s) ON CONFLICT DO NOTHING"
            if transaction.execute(insert, batch).rowcount or not note:
                transaction.execute(PUBLISH, [handles])
            transaction.execute(f"DELETE FROM staged WHERE {clean}", batch)

    return publish_handles


def test_upsert(uri: str) -> None:
    assert checks.check_10_1(upsert("UPDATE SET euros = EXCLUDED.euros"), uri).passed
    assert "the last price" in checks.check_10_1(upsert("NOTHING"), uri).message
    assert (
        "the last price"
        in checks.check_10_1(
            upsert("UPDATE SET euros = prices.euros + EXCLUDED.euros"), uri
        ).message
    )


def test_tidy(uri: str) -> None:
    assert checks.check_10_2(tidy("query = %s AND batch <= %s"), uri).passed
    wrong = [tidy("query = %s OR batch <= %s"), tidy("query = %s AND batch <= %s", note=False)]
    for answer in (*wrong, tidy("query = %s AND batch < %s")):
        assert "a batch counts once" in checks.check_10_2(answer, uri).message


# ---- Sockets -------------------------------------------------------------------------------------


class Client:
    def __init__(self, context: Any) -> None:
        self.socket = socket.create_connection(("127.0.0.1", context.options.port))
        self.rest = b""
        self.socket.settimeout(0.3)

    def fill(self, buffer: Any) -> None:
        try:
            data = self.socket.recv(65536)
        except TimeoutError:
            return
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            buffer.add(line.decode())
        if not data:
            buffer.close()

    def close(self) -> None:
        self.socket.close()


class Splits(Client):
    def fill(self, buffer: Any) -> None:
        try:
            data = self.socket.recv(65536)
        except TimeoutError:
            return
        for line in data.decode(errors="replace").splitlines():
            buffer.add(line)


class Impatient(Client):
    def fill(self, buffer: Any) -> None:
        try:
            super().fill(buffer)
        finally:
            buffer.close()


class Sender(Client):
    def receive(self, row: Any) -> None:
        self.socket.sendall(f"{row.line}\n".encode())


class NoNewline(Sender):
    def receive(self, row: Any) -> None:
        self.socket.sendall(row.line.encode())


class Reconnects(Sender):
    def receive(self, row: Any) -> None:
        with socket.create_connection(self.socket.getpeername()) as connection:
            connection.sendall(f"{row.line}\n".encode())


def test_client() -> None:
    assert checks.check_11_1(Client).passed
    assert "only a newline ends a line" in checks.check_11_1(Splits).message
    assert "`recv` returns b''" in checks.check_11_1(Impatient).message


def test_sender() -> None:
    assert checks.check_11_2(Sender).passed
    assert "each with a newline" in checks.check_11_2(NoNewline).message
    assert "one connection" in checks.check_11_2(Reconnects).message
