"""Checks of notebook 17."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError
from obstore.store import MemoryStore

from workbook.checks.verdict import Case, Wrong, compare, exercise

# ---- Exercise 1: which files a version has -------------------------------------------------------

_LOG = [
    [],
    [("add", "a")],
    [("add", "b")],
    [("remove", "a"), ("remove", "b"), ("add", "c")],
    [("remove", "c"), ("add", "a"), ("add", "b")],
    [("remove", "b"), ("add", "d")],
    [],
]
_FILES = [
    Case((_LOG, 0), set(), "Version 0 is the first commit, and it has no file."),
    Case(
        (_LOG, 2),
        {"a", "b"},
        "Version 2 is made by the commits 0, 1 and 2, and by no later one.",
        symptoms=[
            ({"a"}, "The commit of the version itself counts, too: log[: version + 1]."),
            ({"b"}, "An append adds a file, and the files before it stay."),
        ],
    ),
    Case((_LOG, 3), {"c"}, "Compacting adds one file, and removes those that it replaces."),
    Case(
        (_LOG, 4),
        {"a", "b"},
        "A restore adds files that were removed before: go through the commits in their order.",
    ),
    Case((_LOG, 5), {"a", "d"}, "Only the file that the commit names is removed."),
    Case((_LOG, 6), {"a", "d"}, "An empty commit changes nothing."),
    Case((_LOG, 0), set(), "Begin with an empty set in each call."),
    Case(([[("add", "a")]], 0), {"a"}, "Commit 0 may add files, too: begin with it."),
]


@exercise("def files_at(log, version)")
def check_17_1(answer: Callable[[list[list[tuple[str, str]]], int], Any]) -> str:
    """Does `answer` find in a table's log the files of a version?"""
    compare(answer, _FILES, key=_set)
    return "The files of every version, from the log alone: that is time travel."


def _set(found: Any) -> Any:
    if not isinstance(found, set | frozenset | list | tuple):
        raise Wrong("It must return the files' names, as a set.")
    return set(found)


# ---- Exercise 2: of two drivers one wins ---------------------------------------------------------

NAME, OURS = "manifest-7", b"ours"
THEIRS = (b"theirs", b"ours, but longer", b"our", b"hers", b"ours\n")
_TAKEN = "Another driver has written this manifest. It must stay, and you return False."
_DOWN = (
    "The store could not be reached, so you do not know who has won: catch AlreadyExistsError "
    "alone, and let other errors pass."
)


class Busy:
    """A store in which something happens right before a put, or to its answer."""

    def __init__(
        self,
        before: bytes | None = None,
        lost: bool = False,
        down: str = "",
        denied: bool = False,
    ) -> None:
        self._store, self._before, self._lost, self._down = MemoryStore(), before, lost, down
        self._denied = denied

    def put(self, name: str, content: Any, **how: Any) -> Any:
        self._reach("put")
        if self._before is not None:
            self._store.put(name, self._before)
            self._before = None
        if self._denied:
            raise PermissionDeniedError("no right to write")
        if self._lost:  # it was done, nobody heard of it, and the client asks again
            self._lost = False
            self._store.put(name, content, **how)
        return self._store.put(name, content, **how)

    def get(self, name: str) -> Any:
        self._reach("get")
        return self._store.get(name)

    def _reach(self, what: str) -> None:
        if self._down == what:  # once
            self._down = ""
            raise GenericError("the store cannot be reached")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@exercise("def publish(store, name, content)")
def check_17_2(answer: Callable[[Any, str, bytes], Any]) -> str:
    """Does `answer` write a manifest so that one of two drivers wins, and knows it?"""
    _try(answer, Busy(), OURS, "The name is free: write it, and return True.")
    for theirs in THEIRS:
        taken = Busy()
        taken.put(NAME, theirs)
        _try(answer, taken, theirs, _TAKEN)
    _try(
        answer,
        Busy(before=THEIRS[0]),
        THEIRS[0],
        "Another driver wrote it right before your put. Looking first does not help, as it may "
        'come between the two: put it with mode="create".',
    )
    again = Busy()
    again.put(NAME, OURS)
    hint = "What is there has exactly your content, so it counts: compare, and return True. "
    _try(answer, again, OURS, f"{hint}A crash came before Spark noted that the batch is done.")
    _try(answer, Busy(lost=True), OURS, f"{hint}The answer to your put was lost on the way.")
    _must_not_guess(answer, Busy(down="put"), OURS)
    for there in (OURS, THEIRS[0]):
        unseen = Busy(down="get")
        unseen.put(NAME, there)
        _must_not_guess(answer, unseen, there)
    _must_raise(answer, Busy(before=THEIRS[0], denied=True))
    return "One driver wins, and each knows whether it was the one, also after a crash."


def _try(answer: Callable[[Any, str, bytes], Any], store: Busy, wanted: bytes, hint: str) -> None:
    """The store must have what is wanted in the end, and True says that this is ours."""
    try:
        found = answer(store, NAME, OURS)
    except AlreadyExistsError:
        raise Wrong(f"It raised AlreadyExistsError: catch it. {hint}") from None
    there = _content(store)
    if found is not (wanted == OURS) or there != wanted:
        if found and there == wanted:
            hint += " Go by what the store has, not by what you remember."
        raise Wrong(f"It returned {found!r}, and the store has {there!r}. {hint}")


def _must_not_guess(answer: Callable[[Any, str, bytes], Any], store: Busy, wanted: bytes) -> None:
    """The store's error may leave the answer; if it tries again, it has to find out who has won."""
    try:
        _try(answer, store, wanted, _DOWN)
    except Wrong:
        raise
    except Exception:
        return


def _must_raise(answer: Callable[[Any, str, bytes], Any], store: Busy) -> None:
    try:
        found = answer(store, NAME, OURS)
    except Exception:
        return
    raise Wrong(
        f"It returned {found!r}, and the store had denied the right to write. That error must "
        "come out: catch AlreadyExistsError alone."
    )


def _content(store: Busy) -> bytes | None:
    try:
        return bytes(store.get(NAME).bytes())
    except FileNotFoundError:
        return None
