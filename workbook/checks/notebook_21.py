"""Checks of notebook 21, the capstone: against a ledger in this process, which makes trouble."""

from __future__ import annotations

import gc
import socket
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple

from pyspark.sql import Row
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from tutorial_pkg.core.ports import LOOPBACK
from workbook.checks.trial import as_task, copied, latest, scratch, written
from workbook.checks.verdict import Wrong, exercise, told
from workbook.ledger import (
    BUSY,
    CUT,
    LOST,
    MOST_BYTES,
    MOST_LINES,
    PAGE_ENTRIES,
    SLOW,
    LedgerServer,
    Refused,
    entries,
    no_trouble,
)

# ---- Exercise 1: one request ---------------------------------------------------------------------

NOBODY_CLOSES = 10.0  # seconds after which the check closes the connection itself


class Reply(NamedTuple):
    """What the client asks and gets, and what must come of it: a list, or an error of this kind."""

    request: str
    reply: bytes
    wanted: list[str] | type[Exception]
    hint: str
    lines: tuple[str, ...] = ()
    seconds: float = 0.0  # between its first two pieces


_REPLIES = [
    Reply("LAST orders", b"OK 117\n", ["117"], "Return what follows OK, in a list."),
    Reply("LAST nothing", b"OK 0\n", ["0"], "0 is an answer, too."),
    Reply(
        "PAGE orders 0",
        b"OK 2\n117 nuts,\rbolts\n116  screws \n",
        ["2", "117 nuts,\rbolts", "116  screws "],
        "Then come the lines, as they are: only the newline goes.",
    ),
    Reply("PAGE orders 9", b"OK 0\n", ["0"], "A page without entries has no lines to wait for."),
    Reply("MEMO orders me", b"OK -\n", ["-"], "A memo need not be a number."),
    Reply("MEMO PAGES me", b"OK 2\n", ["2"], "Lines follow only after PAGE."),
    Reply(
        "MEMO orders me",
        b"OK KNOW-BUSY\n",
        ["KNOW-BUSY"],
        "A memo may be any word: only the first word of a reply says what it is.",
    ),
    Reply(
        "PAGE orders 0",
        "OK 1\n1 für\u20283 €\n".encode(),
        ["1", "1 für\u20283 €"],
        "Text is UTF-8, and a letter may have several bytes. Only a newline ends a line.",
    ),
    Reply(
        "BOOK orders me 1 2",
        b"OK 119\n",
        ["119"],
        "The lines follow the request, each with a newline.",
        ("nuts", "bolts"),
    ),
    Reply(
        f"BOOK orders me 2 {MOST_LINES}",
        b"OK 10119\n",
        ["10119"],
        "A BOOK may have 10 MB: `sendall` sends all of it, `send` what there is room for. "
        "Text is UTF-8, lines that you send, too.",
        ("€" * (MOST_BYTES // 3),) * MOST_LINES,
    ),
    Reply("LAST orders", b"", OSError, "The connection was closed without a reply."),
    Reply("LAST orders", b"OK 1", OSError, "The reply was cut: 117 looks like 1, but no newline."),
    Reply("PAGE orders 0", b"OK 2\n117 nuts\n", OSError, "The reply was cut: one line of two."),
    Reply("PAGE orders 0", b"OK 1\n117 nu", OSError, "The reply was cut: a line has no newline."),
    Reply("PAGE orders 0", b"OK 1\n1 f\xc3", OSError, "The reply was cut, within a letter."),
    Reply("LAST orders", b"BUSY 0.05\n", OSError, "BUSY: nothing was done."),
    Reply("BOOK orders me 1 0", b"NO 0 lines\n", ValueError, "NO: repeating it is of no use."),
    Reply(
        "PAGE orders 0",
        b"OK 2\n117 nuts\n116 bolts\n",
        ["2", "117 nuts", "116 bolts"],
        "A reply may take a second, and come in pieces that end anywhere: count whole lines.",
        seconds=1.2,  # no timeout of one second is enough
    ),
]
_AGAIN = b"NO It tries once, and this request came again\n"


class _Scripted(socketserver.ThreadingTCPServer):
    """Gives its reply once, and keeps the connection open after OK and BUSY, as ledgers do.

    A client that connects and asks again is refused: it may do so for ever.
    """

    allow_reuse_address = daemon_threads = True

    def __init__(self, case: Reply) -> None:
        super().__init__((LOOPBACK, 0), _OneReply)
        self.case, self.got, self.waits = case, bytearray(), False
        self.for_ever = False
        self.done = threading.Event()
        self.address = f"{LOOPBACK}:{self.server_address[1]}"


class _OneReply(socketserver.StreamRequestHandler):
    server: _Scripted
    timeout = NOBODY_CLOSES

    def handle(self) -> None:
        server, case = self.server, self.server.case
        reply = _AGAIN if server.got else case.reply
        try:
            for _ in range(1 + len(case.lines)):
                server.got += self.rfile.readline()
            if case.seconds:
                self.wfile.write(reply[:8])  # within a line; the next piece ends with a newline
                time.sleep(case.seconds)
                server.for_ever = _waits_for_ever(server.server_address)
                self.wfile.write(reply[8:14])
                time.sleep(case.seconds / 2)
                reply = reply[14:]
            self.wfile.write(reply)
            if isinstance(case.wanted, list) or reply.startswith(b"BUSY"):
                while more := self.rfile.readline():  # until the client closes
                    server.got += more
        except TimeoutError:
            server.waits = True
        except OSError:
            pass  # it closed at once
        server.done.set()


def _waits_for_ever(peer: Any) -> bool:
    """Whether this process has a connection to `peer` without a timeout."""
    for each in gc.get_objects():
        if type(each) is socket.socket and each.gettimeout() is None:
            with suppress(OSError):  # it is closed, or not connected
                if each.getpeername() == peer:
                    return True
    return False


@exercise("def ask(address, request, lines=())")
def check_21_1(answer: Callable[..., list[str]]) -> str:
    """Does `answer` give the whole reply to a request, or raise what says why there is none?"""
    for case in _REPLIES:
        with _Scripted(case) as server:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            try:
                _look_at_reply(answer, case, server)
            finally:
                server.shutdown()
    return "A whole reply, or an error that says whether to ask again."


def _look_at_reply(answer: Callable[..., list[str]], case: Reply, server: _Scripted) -> None:
    more = (list(case.lines),) if case.lines else ()
    call = f"ask(address, {case.request!r}{', ' + _start_of(more[0]) if more else ''})"
    where = f"{call}, answered with {case.reply!r}"
    found, raised, error = _outcome(answer, server.address, case.request, *more)
    open_yet = not server.done.is_set()
    server.done.wait(2 * NOBODY_CLOSES)
    sent = "".join(f"{line}\n" for line in (case.request, *case.lines)).encode()
    if (got := bytes(server.got)) != sent:
        text = f"{call} must send {_start_of(sent)}, the ledger got {_start_of(got)}"
        raise Wrong(
            f"{text}; yours raised {error}. {case.hint}" if raised else f"{text}. {case.hint}"
        )
    if server.waits and open_yet:
        raise Wrong(f"{where}: the connection stays open. Close it: use `with`, or `close()`.")
    if server.waits:
        raise Wrong(f"{where}: it waits for more. Read as many lines as there are. {case.hint}")
    if isinstance(case.wanted, list):
        if raised:
            raise Wrong(f"{where}, raised {error}. {case.hint}")
        if found != case.wanted:
            raise Wrong(f"{where}, must return {case.wanted}, yours is {found!r}. {case.hint}")
    elif not raised or not issubclass(raised, case.wanted):
        yours = f"yours raised {error}" if raised else f"yours returned {found!r}"
        raise Wrong(f"{where}, must raise {_named(case.wanted)}, {yours}. {case.hint}")
    if server.for_ever:
        raise Wrong(f"{call} waits for ever for a ledger that falls silent: give it a `timeout`.")


def _start_of(sent: Any) -> str:
    text = repr(sent)
    return text if len(text) <= 80 else f"{text[:60]} … ({len(sent):,} in all)"


def _outcome(
    answer: Callable[..., Any], *arguments: Any
) -> tuple[Any, type[Exception] | None, str]:
    """What it returned, or raised and how that is told. The error itself would hold its sockets."""
    try:
        return answer(*arguments), None, ""
    except Exception as error:
        return None, type(error), told(error)


def _named(error: type[Exception]) -> str:
    return "OSError (or ConnectionError)" if error is OSError else error.__name__


# ---- Exercise 2: the source ----------------------------------------------------------------------

ORDERS, COPIES = "shop", "archive"  # not what the documentation names
MANY = 120  # entries: more than two pages
FAR = 3_000
MOST_IN_A_CHECK = 2_000  # requests
_SOON = {"retrySeconds": "2", "retryPauseMillis": "1"}  # what the builder repeats by itself
_OTHERS = "while others book"
_LATER_PAGES = (
    "Entries move to later pages meanwhile: go from the newest page to the oldest, until you have "
    "entry `start`"
)
MOST_REQUESTS = 12  # for the MANY oldest or newest of FAR entries


class _Trouble:
    """What befalls requests, by how many there have been; counts them."""

    def __init__(self, *turns: str) -> None:
        self._turns = turns
        self.requests: list[str] = []

    def __call__(self, request: str) -> str:
        self.requests.append(request)
        turns = self._turns
        return turns[len(self.requests) % len(turns)] if turns else ""


class _Ledger(LedgerServer):
    """It ends a client that asks for ever."""

    requests = 0

    def befalls(self, request: str) -> str:
        self.requests += 1
        if self.requests > MOST_IN_A_CHECK:
            raise Refused(f"{MOST_IN_A_CHECK} requests: an endless loop? A book begins at entry 1")
        return super().befalls(request)


@contextmanager
def _ledger() -> Iterator[LedgerServer]:
    with scratch() as folder, _Ledger(folder / "ledger.db") as server:
        yield server


def _feed(server: LedgerServer, count: int) -> None:
    """Beside the connections, so that no trouble befalls it."""
    last = server.books.last(ORDERS)
    texts = [_text(number) for number in range(last + 1, last + count + 1)]
    server.books.book(ORDERS, "check", str(last), texts)


def _text(number: int) -> str:
    """Spaces belong to it, and two entries may have the same."""
    return f" order {number // 2} "


@exercise()
def check_21_2(answer: Any) -> str:
    """Does the source `answer` read each entry of the book once, whatever the ledger does?"""
    _must_be_built(answer, "SourceBuilder.replayable(...)", "orders")
    if getattr(answer, "reads_log", False):
        raise Wrong("This source needs a log. The ledger can be asked again: use `replayable`.")
    with _ledger() as server:
        source = answer({"address": server.address, "book": ORDERS, **_SOON})
        _must_have_the_columns(source.schema())
        reader = source.streamReader(_ENTRY)
        reader.read = copied(reader).read  # a task's reader has not seen the calls of `latest`
        start = reader.initialOffset()
        end = latest(reader, start)
        if (splits := {*end} - {""}) != {ORDERS}:
            names = ", ".join(sorted(splits))
            raise Wrong(f"The only split is the book that the option names, {ORDERS}, not {names}.")
        _must_read(reader, start, end, 0, "an empty book")
        _feed(server, MANY)
        middle = latest(reader, start)
        _must_read(reader, start, middle, MANY, f"the book {ORDERS}")
        server.trouble = _while_others_book(server)
        _must_read(reader, start, middle, MANY, _OTHERS)
        server.trouble = no_trouble
        _feed(server, (MANY - 1 - server.books.last(ORDERS)) % PAGE_ENTRIES)
        _must_read(reader, start, middle, MANY, f"{MANY} being the last one on its page")
        server.trouble = _Trouble("", BUSY, "", CUT, LOST, SLOW)
        _feed(server, MANY)
        end = latest(reader, middle)
        _must_read(reader, start, middle, MANY, "a ledger that is busy, breaks off and is slow")
        _must_read(reader, middle, end, server.books.last(ORDERS), "the next batch", MANY)
        _must_not_turn_all_pages(reader, start, middle, server)
        reader.stop()
    return "Each entry once, in order, and the same again for the same offsets."


def _must_have_the_columns(schema: Any) -> None:
    text = schema if isinstance(schema, str) else schema.simpleString()[len("struct<") : -1]
    columns = [part.replace(":", " ").lower().split()[:2] for part in text.split(",")]
    if columns not in ([["number", kind], ["text", "string"]] for kind in ("long", "bigint")):
        raise Wrong(f"The schema is `number LONG, text STRING`, yours is `{text}`.")


def _while_others_book(server: LedgerServer) -> Callable[[str], str]:
    def trouble(request: str) -> str:
        if request.startswith("PAGE"):
            _feed(server, 40)
        return ""

    return trouble


def _must_read(reader: Any, start: Any, end: Any, last: int, when: str, first: int = 0) -> None:
    """The entries behind `first` up to `last` must come between two offsets."""
    try:
        found = [row["number"] for row in _rows(reader, start, end)]
    except Wrong:
        raise
    except Exception as error:
        hint = ""
        if isinstance(error.__cause__, OSError):
            hint = ". Ask again for a page, not for the whole batch: `patiently`"
        elif isinstance(error.__cause__, KeyError) and when == _OTHERS:
            hint = f". {_LATER_PAGES}"
        raise Wrong(f"{when}: it raised {told(error)}{hint}") from None
    wanted = list(range(first + 1, last + 1))
    if found == wanted:
        return
    text = f"{when}: of the entries {first + 1} to {last}" if last else when
    missing, more = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    if any(number > last for number in more):
        raise Wrong(f"{text}, entry {max(more)} came, which is beyond the batch: stop at `end`.")
    if more:
        hint = "pages shift while others book, so an entry may be on two pages"
        raise Wrong(f"{text}, {min(more)} came twice: {hint}. Go by the numbers.")
    if missing:
        hint = "Go by the numbers; and after an error ask again, as it is no empty page"
        if not found:
            hint = "Nothing came. After an error ask again, and do not take it for an empty page"
        elif last in missing:
            hint = "`latest` is the next unread number, one more than LAST"
            if end.get(ORDERS) == last + 1:
                hint = "Begin at the page that has `end - 1` now"
        elif first + 1 in missing:
            hint = "Turn pages until you have entry `start`, and give it, too"
            if when == _OTHERS:
                hint = _LATER_PAGES
        raise Wrong(f"{text}, {len(missing)} did not come, such as {min(missing)}. {hint}")
    raise Wrong(f"{text}, the order is {found[:3]} …: give the oldest first.")


def _rows(reader: Any, start: Any, end: Any) -> list[dict[str, Any]]:
    """What tasks would read; a row's text must be the one that was booked."""
    rows: list[dict[str, Any]] = []
    for number, part in enumerate(reader.partitions(start, end)):
        with as_task(number):
            for batch in copied(reader).read(copied(part)):
                rows += batch.to_pylist()
    for row in rows:
        wanted = {"number": row["number"], "text": _text(row["number"])}
        if row != wanted:
            hint = "the text is what follows the first space, as it is"
            raise Wrong(f"A row must be {wanted}, yours is {row}: {hint}.")
    return rows


def _must_not_turn_all_pages(reader: Any, start: Any, end: Any, server: LedgerServer) -> None:
    _feed(server, FAR)
    before, far = server.books.last(ORDERS), latest(reader, start)
    _feed(server, MANY)
    oldest = "do not begin at page 0. LAST tells on which page an entry is, or on a later one"
    newest = "turn no more pages when you have entry `start`"
    for first, begin, until, which, hint in (
        (0, start, end, "oldest", oldest),
        (before, far, latest(reader, far), "newest", newest),
    ):
        server.trouble = counted = _Trouble()
        _must_read(reader, begin, until, first + MANY, "a long book", first)
        if (asked := len(counted.requests)) > MOST_REQUESTS:
            text = f"The {MANY} {which} entries of {before + MANY} took {asked} requests"
            raise Wrong(f"{text}: {hint}.")
    server.trouble = no_trouble
    _must_read(reader, start, latest(reader, start), server.books.last(ORDERS), "a long batch")


# ---- Exercise 3: the sink ------------------------------------------------------------------------

_PARTS = [["nuts", " bolts ", ""], [], ["nuts"] * 1_500]  # of three tasks; a row is no key


@exercise()
def check_21_3(answer: Any) -> str:
    """Does the sink `answer` book each batch once and whole, whatever the ledger does?"""
    _must_be_built(answer, "SinkBuilder.stream(...)", "copies")
    with _ledger() as server:
        trial = _SinkTrial(answer, server)
        trial.books_in_one_step()
        trial.knows_a_repeat()
        trial.leaves_other_queries_alone()
        trial.takes_an_empty_batch()
        trial.survives(BUSY, "BUSY: nothing was done, so ask again")
        for trouble in (LOST, CUT):
            hint = "the reply was lost, the lines were booked: ask for the memo before you repeat"
            trial.survives(trouble, hint)
        trial.counts_batches_as_numbers()
        trial.hides_no_refusal()
    return "Each batch once and whole, whatever becomes of the replies."


class _SinkTrial:
    """Batches for a book; what must be in it by now."""

    def __init__(self, sink: Any, server: LedgerServer) -> None:
        options = {"address": server.address, "book": COPIES, **_SOON}
        self._writer = sink(options).streamWriter(_ROW, False)
        self._server, self._batch, self._wanted = server, 0, Counter[str]()

    def books_in_one_step(self) -> None:
        messages = self._written(_PARTS)
        if self._entries():
            raise Wrong("Rows are booked before `commit`: a task may fail, and the batch with it.")
        self._server.trouble = counted = _Trouble()
        self._commit(messages)
        times = sum(request.startswith("BOOK") for request in counted.requests)
        if not times:
            raise Wrong("No BOOK came for batch 0. As long as the memo is `-`, nothing is booked.")
        if times > 1:
            raise Wrong(f"A batch of three tasks was booked in {times} steps: one BOOK for all.")
        each = "each line as it is, and equal ones, too"
        self._expect(_PARTS, f"one BOOK for all handles, in {COPIES}, {each}")

    def knows_a_repeat(self) -> None:
        self._commit(self._written(_PARTS))
        when = "the same batch again, after a crash that followed the BOOK"
        self._expect([], f"{when}: ask for the memo, which is text")
        self._next([["nuts"]], "the next batch: compare the memo with its number")
        self._next([["nuts"]], "a batch of the same lines: the memo is the batch's number")

    def leaves_other_queries_alone(self) -> None:
        """It counts its batches from 0."""
        messages = [replace(message, query="q-2") for message in self._written([["screws"]])]
        copied(self._writer).commit(messages, 0)
        self._expect([["screws"]], "batch 0 of another query: book as `context.query`")
        self._commit(self._written([["nuts"]]))
        self._expect(
            [], "the first query's batch again, after another query: book as `context.query`"
        )

    def takes_an_empty_batch(self) -> None:
        self._next([[], []], "a batch without rows: BOOK takes one line or more")

    def survives(self, trouble: str, hint: str) -> None:
        """Each request meets it once, BOOK in any case."""
        met: set[str] = set()

        def once(request: str) -> str:
            kind = request.split(" ")[0]
            new = kind not in met
            met.add(kind)
            return trouble if new else ""

        self._server.trouble = once
        self._next([["bolts"], ["nuts"]], hint)

    def counts_batches_as_numbers(self) -> None:
        self._batch = 8
        for _ in range(2):  # 9 and 10: as texts the latter is the smaller one
            self._next([["bolts"]], "batch 9, then 10: compare numbers")

    def hides_no_refusal(self) -> None:
        self._batch += 1
        messages = self._written([["x" * (MOST_BYTES + 1)]])
        try:
            self._commit(messages)
        except Exception:
            return
        raise Wrong(
            "The ledger said NO to a line that is too long: let the ValueError end `commit`."
        )

    def _next(self, parts: list[list[str]], when: str) -> None:
        self._batch += 1
        self._commit(self._written(parts))
        self._expect(parts, when)

    def _written(self, parts: list[list[str]]) -> list[Any]:
        rows = [[Row(value=text) for text in part] for part in parts]
        return written(self._writer, rows, batch=self._batch)

    def _commit(self, messages: list[Any]) -> None:
        try:
            copied(self._writer).commit(messages, self._batch)
        except Exception as error:
            if "BOOK takes 1 to" not in str(error):
                raise
            raise Wrong(
                f"A BOOK without lines was refused: {told(error)}. A batch may be empty, and so "
                "may a handle. Book all handles with one BOOK, and nothing if there are no lines."
            ) from None

    def _entries(self) -> Counter[str]:
        self._server.trouble = no_trouble
        return Counter(entries(self._server.address, COPIES))

    def _expect(self, parts: list[list[str]], when: str) -> None:
        self._wanted.update(text for part in parts for text in part)
        found = self._entries()
        if found != self._wanted:
            less, more = _told(self._wanted - found), _told(found - self._wanted)
            raise Wrong(f"{when}. Lines missing from the book: {less}; too many: {more}.")


def _told(lines: Counter[str]) -> str:
    return f"{lines.total()}, such as {next(iter(lines))!r}" if lines else "0"


_ENTRY = StructType().add("number", "long").add("text", "string")
_ROW = StructType().add("value", "string")


def _must_be_built(answer: Any, how: str, name: str) -> None:
    if not isinstance(answer, type) or not issubclass(answer, DataSource):
        raise Wrong(f"A data source class is wanted: answer = {how}. … .build()")
    if answer.name() != name:
        raise Wrong(f"It must be named {name!r}, yours is {answer.name()!r}.")
