"""A store: one client for S3, Google, Azure and local files, and what it says when it fails."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import obstore
from obstore import exceptions
from obstore.store import LocalStore, from_url

from tutorial_pkg.builder import OptionValues
from tutorial_pkg.connectors.store_options import check_hidden
from tutorial_pkg.core.pauses import patiently

__all__ = [
    "Found",
    "ObjectFile",
    "ReplacedError",
    "Store",
    "log",
    "storage_settings",
    "told",
    "visible",
]

Answer = TypeVar("Answer")
log = logging.getLogger(__name__)


class Found(NamedTuple):
    """An object as a listing shows it; who replaces it changes its tag."""

    key: str
    tag: str
    size: int


class Store:
    """Objects below one address. Made where it is used: what it holds is never pickled.

    Methods raise `FileNotFoundError`, `PermissionError`, `ReplacedError`, and `ConnectionError`
    when the store has not answered for `waitSeconds`.
    """

    def __init__(self, options: OptionValues, url: str, make: bool = False) -> None:
        """`make` makes a missing local folder; without it, that is a `ValueError`."""
        self.url, self._seconds, self._options = url, options.waitSeconds, options
        self.client = _client(options, url, make)

    def listed(self, prefix: str = "", after: str | None = None) -> list[Found]:
        """All below `prefix`, in the order of names: those behind `after`, if it is given."""

        def look() -> list[Found]:
            pages = obstore.list(self.client, prefix or None, offset=after, chunk_size=1000)
            return sorted(
                Found(each["path"], each["e_tag"] or "", each["size"])
                for page in pages
                for each in page
            )

        return self._ask(look)

    def check_folder(self) -> None:
        """Raises `ValueError` for the address of an object: nothing is below it."""
        above, _, name = self.url.rpartition("/")
        if "://" not in above or above.endswith("/"):
            return
        with suppress(PermissionError):  # of those who may see only what is below
            if Store(self._options, above).exists(name):
                raise ValueError(
                    f"{self.url} is an object; give the address above it, and option `glob` {name}"
                )

    def folders(self, prefix: str) -> list[str]:
        """The names right below `prefix` that end with `/`."""
        found = self._ask(lambda: obstore.list_with_delimiter(self.client, prefix))
        return [each.rpartition("/")[2] for each in found["common_prefixes"]]

    def read(self, key: str) -> bytes:
        return self._get(key, {})

    def read_range(self, found: Found, begin: int, end: int) -> bytes:
        """Bytes of what was found, and of nothing that came in its place."""
        options: Any = {"range": (begin, end)} | ({"if_match": found.tag} if found.tag else {})
        return self._get(found.key, options)

    def _get(self, key: str, options: Any) -> bytes:
        """The answer as a whole: what breaks in the middle of it is asked for again."""

        def get() -> bytes:
            return obstore.get(self.client, key, options=options).bytes().to_bytes()

        return self._ask(get)

    def exists(self, key: str) -> bool:
        try:
            self._ask(lambda: obstore.head(self.client, key))
        except FileNotFoundError:
            return False
        return True

    def write(self, key: str, content: bytes | IO[bytes]) -> Found:
        """An object with this content, whatever was there."""
        size = len(content) if isinstance(content, bytes) else content.seek(0, io.SEEK_END)

        def put() -> Found:
            if not isinstance(content, bytes):
                content.seek(0)
            return Found(key, obstore.put(self.client, key, content)["e_tag"] or "", size)

        return self._ask(put)

    def create(self, key: str, content: bytes) -> bool:
        """Write what is not there yet; False if somebody else was first: one of two writers wins.

        An answer may get lost, so what is there already may be this very content.
        """
        try:
            self._ask(lambda: obstore.put(self.client, key, content, mode="create"))
        except exceptions.AlreadyExistsError:
            return self.read(key) == content
        return True

    def delete(self, keys: list[str]) -> None:
        """What is gone already does no harm."""
        for key in keys:
            try:
                self._ask(partial(obstore.delete, self.client, key))
            except FileNotFoundError:
                continue

    def _ask(self, work: Callable[[], Answer]) -> Answer:
        try:
            return patiently(work, _may_pass, self._seconds)
        except exceptions.PreconditionError as error:
            raise ReplacedError(told(error)) from None
        except exceptions.AlreadyExistsError:
            raise
        except exceptions.BaseError as error:
            if _refuses(error):
                raise PermissionError(
                    f"{self.url} refuses: {told(error)}; are the credentials right, not expired, "
                    "and in the environment of the driver and of the workers?"
                ) from None
            after = f" for {self._seconds} s (option `waitSeconds`)" if _may_pass(error) else ""
            raise ConnectionError(f"{self.url} fails{after}: {told(error)}") from None


class ReplacedError(Exception):
    """An object has other content than when it was found."""


class ObjectFile(io.RawIOBase):
    """An object as a file, of which only what is asked for is fetched."""

    def __init__(self, store: Store, found: Found) -> None:
        self._store, self._found, self._at = store, found, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._found.size}[whence]
        self._at = base + place
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._found.size)
        if end <= self._at:
            return 0
        data = self._store.read_range(self._found, self._at, end)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def _may_pass(error: Exception) -> bool:
    """The client tries again what it knows will pass; a broken connection in an answer is ours."""
    passing = type(error) is exceptions.GenericError and not _refuses(error)
    return passing and _status(error) != 404


def _refuses(error: Exception) -> bool:
    """Amazon says of a token that has expired that the request is bad (400), not forbidden.

    To a request for a list, the client's error is the same for every status.
    """
    refusals = exceptions.PermissionDeniedError, exceptions.UnauthenticatedError
    refused = isinstance(error, refusals) or _status(error) in (401, 403)
    return refused or "<Code>ExpiredToken</Code>" in str(error)


def _status(error: Exception) -> int | None:
    """Of the server's answer. The address stands before it, and may have any digits."""
    found = re.search(r" status code: (\d{3})\b", str(error))
    return int(found[1]) if found else None


def told(error: Exception) -> str:
    """In one line, without colours, and without what a signed address has behind its `?`."""
    text = re.sub(r"\x1b\[\d*m|↳", "", str(error)).partition("Debug source")[0]
    text = re.sub(r"<\?xml.*?(?:<Code>(\w+)</Code>.*|$)", r"\1", text, flags=re.S)
    return re.sub(r"\?[^\s)]*", "", " ".join(text.split())) or type(error).__name__


def storage_settings(options: OptionValues) -> dict[str, str]:
    """Settings for a store's client, and for that of Delta tables, which has the same names."""
    check_hidden(options["store.*"])
    settings = {name: value.reveal() for name, value in options["store.*"].items()}
    waiting = {"timeout": "30s", "connect_timeout": "5s"}
    if options.endpoint:
        settings["endpoint"] = options.endpoint
        waiting["allow_http"] = str(options.endpoint.startswith("http://")).lower()
    return {**waiting, **settings}


CLIENT = ("timeout", "connect_timeout", "allow_http")  # of these settings, those of its HTTP


def _client(options: OptionValues, url: str, make: bool) -> Any:
    if "://" not in url or url.startswith("file://"):
        folder = Path(url.removeprefix("file://")).absolute()
        if not make and not folder.is_dir():
            raise ValueError(f"there is no folder {folder}")
        return LocalStore(prefix=folder, mkdir=make)
    settings: Any = storage_settings(options)
    client: Any = {name: settings.pop(name) for name in CLIENT if name in settings}
    waiting: Any = {
        "max_retries": 1000,
        "retry_timeout": timedelta(seconds=options.waitSeconds),
        "backoff": {"max_backoff": timedelta(seconds=2)},
    }
    try:
        return from_url(url, config=settings, client_options=client, retry_config=waiting)
    except (exceptions.BaseError, ValueError) as error:
        raise ValueError(f"{url}: {told(error)}") from None


def visible(found: list[Found]) -> Iterator[Found]:
    """Without what is for programs only: names that begin with `_` or `.`, and all below them."""
    for each in found:
        if not re.search(r"(^|/)[._]", each.key):
            yield each
