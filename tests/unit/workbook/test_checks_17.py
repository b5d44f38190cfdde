"""The checks of notebook 17."""

from __future__ import annotations

import contextlib
from typing import Any

from obstore.exceptions import AlreadyExistsError, GenericError

from tests.unit.workbook.answers import changed, tried
from workbook.checks import check_17_1, check_17_2


def files_at(log: list, version: int) -> set:
    files: set = set()
    for commit in log[: version + 1]:
        for action, file in commit:
            files.add(file) if action == "add" else files.discard(file)
    return files


def difference(log: list, version: int) -> set:
    done = [each for commit in log[: version + 1] for each in commit]
    removed = {file for action, file in done if action == "remove"}
    return {file for action, file in done if action == "add"} - removed


def kept(log: list, version: int, files: set = set()) -> set:  # noqa: B006
    for action, file in (each for commit in log[: version + 1] for each in commit):
        files.add(file) if action == "add" else files.discard(file)
    return files


def replaced(log: list, version: int) -> set:
    files: set = set()
    for commit in log[: version + 1]:
        files = set() if any(action == "remove" for action, _ in commit) else files
        files |= {file for action, file in commit if action == "add"}
    return files


def last_action(log: list, version: int) -> set:
    last = {file: action for commit in log[: version + 1] for action, file in commit}
    return {file for file, action in last.items() if action == "add"}


def from_the_version_before(log: list, version: int) -> set:
    files = from_the_version_before(log, version - 1) if version else set()
    for _, file in log[version]:
        files ^= {file}
    return files


def used_up(log: list, version: int) -> set:
    return files_at([log.pop(0) for _ in range(version + 1)], version)


test_17_1 = tried(
    check_17_1,
    (files_at, "✓ The files of every version"),
    (lambda log, version: sorted(files_at(log, version)), "✓ The files of every version"),
    (None, "– No answer yet"),
    ("a", "A function is wanted"),
    (lambda log, version: len(log), "It must return the files' names"),
    (changed(files_at, ("version + 1", "version")), "The commit of the version itself counts"),
    (changed(files_at, ("log[: version + 1]", "[log[version]]")), "the files before it stay"),
    (changed(files_at, ("log[: version + 1]", "log")), "Version 0 is the first commit"),
    (changed(files_at, ("files.discard(file)", "None")), "removes those that it replaces"),
    (difference, "go through the commits in their order"),
    (changed(files_at, ("log[: version", "log[1 : version")), "Commit 0 may add files"),
    (lambda log, version: difference(log, version) & difference(log, 6), "and by no later one"),
    (used_up, "must be set(), yours is {'a'}. An earlier call is remembered, or has changed"),
    (kept, "Begin with an empty set in each call"),
    (replaced, "Only the file that the commit names is removed"),
    (changed(files_at, ("files.discard(file)", "files.clear()")), "Only the file that the commit"),
    (
        changed(files_at, ("return files", "return files if log[version] else set()")),
        "An empty commit changes nothing",
    ),
    (last_action, "✓ The files of every version"),
    (from_the_version_before, "✓ The files of every version"),
)


def publish(store: Any, name: str, content: bytes) -> bool:
    try:
        store.put(name, content, mode="create")
    except AlreadyExistsError:
        return bytes(store.get(name).bytes()) == content
    return True


def puts_and_looks(store: Any, name: str, content: bytes) -> bool:
    with contextlib.suppress(AlreadyExistsError):
        store.put(name, content, mode="create")
    return bool(store.get(name).bytes() == content)


def looks_and_creates(store: Any, name: str, content: bytes) -> bool:
    if name in [each["path"] for page in store.list() for each in page]:
        return bytes(store.get(name).bytes()) == content
    store.put(name, content, mode="create")
    return True


def deletes(store: Any, name: str, content: bytes) -> bool:
    if not publish(store, name, content):
        store.delete(name)
        return False
    return True


def looks_first(store: Any, name: str, content: bytes) -> bool:
    try:
        return bytes(store.get(name).bytes()) == content
    except FileNotFoundError:
        store.put(name, content)
        return True


def catches_all(store: Any, name: str, content: bytes) -> bool:
    try:
        store.put(name, content, mode="create")
        return True
    except Exception:
        with contextlib.suppress(Exception):
            return bytes(store.get(name).bytes()) == content
        return False


def takes_an_error_for_a_loss(store: Any, name: str, content: bytes) -> bool:
    try:
        store.put(name, content, mode="create")
    except AlreadyExistsError:
        with contextlib.suppress(Exception):
            return bytes(store.get(name).bytes()) == content
        return False
    return True


def takes_an_error_for_a_win(store: Any, name: str, content: bytes) -> bool:
    try:
        store.put(name, content, mode="create")
    except AlreadyExistsError:
        with contextlib.suppress(GenericError):
            return bytes(store.get(name).bytes()) == content
    return True


def tries_again(store: Any, name: str, content: bytes) -> bool:
    try:
        return publish(store, name, content)
    except GenericError:
        return publish(store, name, content)


def three_times(store: Any, name: str, content: bytes) -> bool:
    for _ in range(3):
        with contextlib.suppress(Exception):
            return publish(store, name, content)
    return False


def what_it_remembers(store: Any, name: str, content: bytes, own: dict = {}) -> bool:  # noqa: B006
    with contextlib.suppress(AlreadyExistsError):
        store.put(name, content, mode="create")
        own[name] = content
    return own.get(name) == content


SAME = "bytes(store.get(name).bytes()) == content"
test_17_2 = tried(
    check_17_2,
    (publish, "✓ One driver wins"),
    (None, "– No answer yet"),
    (7, "A function is wanted"),
    (lambda store, name, content: None, "the store has None. The name is free"),
    (changed(publish, (', mode="create"', "")), "Another driver has written this manifest"),
    (looks_first, "Looking first does not help"),
    (changed(publish, ("AlreadyExistsError", "KeyError")), "AlreadyExistsError: catch it"),
    (changed(publish, (SAME, "False")), "A crash came before Spark noted"),
    (changed(publish, (SAME, "True")), "It must stay, and you return False"),
    (changed(publish, ("== content", "in content")), "It must stay, and you return False"),
    (
        changed(publish, (SAME, "content in bytes(store.get(name).bytes())")),
        "It must stay, and you return False",
    ),
    (
        changed(publish, (SAME, "store.head(name)['size'] == len(content)")),
        "It must stay, and you return False",
    ),
    (changed(publish, ("return True", "return None")), "The name is free: write it"),
    (changed(publish, ("return True", "return content")), "The name is free: write it"),
    (changed(publish, ("put(name", "put(name + '.tmp'")), "the store has None. The name is free"),
    (looks_and_creates, "AlreadyExistsError: catch it. Another driver wrote it right before"),
    (deletes, "It returned False, and the store has None. Another driver has written"),
    (changed(publish, (SAME, "store.get(name) == content")), "A crash came before Spark noted"),
    (puts_and_looks, "✓ One driver wins"),
    (changed(publish, (SAME, "store.get(name).bytes() == content")), "✓ One driver wins"),
    (
        takes_an_error_for_a_loss,
        "It returned False, and the store has b'ours'. The store could not be reached",
    ),
    (
        changed(publish, (SAME, "bytes(store.get(name).bytes()).strip() == content.strip()")),
        "It must stay, and you return False",
    ),
    (
        takes_an_error_for_a_win,
        "It returned True, and the store has b'theirs'. The store could not be reached",
    ),
    (catches_all, "It returned False, and the store has None. The store could not be reached"),
    (changed(publish, ("AlreadyExistsError", "Exception")), "That error must come out: catch"),
    (three_times, "It returned False, and the store had denied the right to write"),
    (what_it_remembers, "not by what you remember"),
    (tries_again, "✓ One driver wins"),
)
