"""A store: one client for S3, Google, Azure and local folders, with its errors in plain words."""

from __future__ import annotations

import io
import logging
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import obstore
from obstore import exceptions
from obstore.store import LocalStore, from_url

from tutorial_pkg.builder import OptionValues, Retries
from tutorial_pkg.connectors.store_options import check_hidden
from tutorial_pkg.core.disk import replace_file, sync_directory

Answer = TypeVar("Answer")
log = logging.getLogger(__name__)

CREDENTIALS = (
    "are the credentials right, not expired, and in the environment of the driver and the workers?"
)
CLIENT_SECONDS = 2  # of silent retries inside the client; after that, each retry is logged


class ObjectInfo(NamedTuple):
    """An object as a listing shows it. Its tag changes when it is replaced."""

    key: str
    tag: str
    size: int


class ReplacedError(Exception):
    """An object has other content than when it was listed."""


class Store:
    """Objects below one address. Create it where you use it: it cannot be pickled.

    Methods raise `FileNotFoundError`, `PermissionError`, `ReplacedError`, `OSError` for a full
    disk, and `ConnectionError` if the store has failed for `waitSeconds`. In a local folder, what
    was written survives a power failure.
    """

    def __init__(self, options: OptionValues, url: str, make: bool = False) -> None:
        """`make` creates a missing local folder; without it, that is a `ValueError`."""
        self.url, self._options, self._folder = url, options, local_folder(url)
        self._retries = Retries((), options.waitSeconds, 0.2, transient=_is_transient)
        if self._folder and make:
            _make_folder(self._folder)
        self.client = _client(options, url, self._folder)

    def listing(self, prefix: str = "", after: str | None = None) -> list[ObjectInfo]:
        """Return all objects below `prefix`, sorted by name: those after `after`, if given."""

        def look() -> list[ObjectInfo]:
            pages = obstore.list(self.client, prefix or None, offset=after, chunk_size=1000)
            return sorted(_info(meta) for page in pages for meta in page)

        return self._ask(look, prefix)

    def list_folders(self, prefix: str) -> list[str]:
        listing = self._ask(lambda: obstore.list_with_delimiter(self.client, prefix), prefix)
        return [folder.rpartition("/")[2] for folder in listing["common_prefixes"]]

    def check_folder(self) -> None:
        """Raise `ValueError` if the address is that of an object: nothing is below it."""
        parent, _, name = self.url.rpartition("/")
        with suppress(PermissionError):  # a user may be allowed to see only what is below
            if not self._folder and "://" in parent and Store(self._options, parent).find(name):
                raise ValueError(
                    f"{self.url} is an object; load {parent}, with option `glob` {name}"
                )

    def read(self, key: str, options: Any = None) -> bytes:
        def get() -> bytes:
            return obstore.get(self.client, key, options=options).bytes().to_bytes()

        return self._ask(get, key)

    def read_range(self, info: ObjectInfo, start: int, end: int) -> bytes:
        """Return some bytes of a listed object. Raises `ReplacedError` if it was replaced."""
        condition = {"if_match": info.tag} if info.tag else {}
        data = self.read(info.key, {"range": (start, end), **condition})
        if len(data) < end - start:
            raise ReplacedError(f"`{info.key}` of {self.url} is shorter than it was")
        return data

    def find(self, key: str) -> ObjectInfo | None:
        """Return an object, if it exists and the client can parse its name."""
        try:
            return _info(self._ask(lambda: obstore.head(self.client, key), key))
        except (FileNotFoundError, ValueError):
            return None

    def write(self, key: str, content: bytes | IO[bytes]) -> ObjectInfo:
        size = len(content) if isinstance(content, bytes) else content.seek(0, io.SEEK_END)
        return ObjectInfo(key, self._ask(lambda: self._put(key, content, "overwrite"), key), size)

    def create(self, key: str, content: bytes) -> bool:
        """Write an object that does not exist yet, and return whether that succeeded.

        Of two writers, one succeeds. A store's answer may get lost, so an object that has this very
        content counts as ours.
        """
        try:
            self._ask(lambda: self._put(key, content, "create"), key)
        except FileExistsError:
            return self.read(key) == content
        return True

    def check_conditional_writes(self, folder: str) -> None:
        """Raise `ValueError` if the store replaces an object that `create` must leave alone."""
        if self._folder:
            return
        key = f"{folder}/check-{uuid.uuid4().hex}"
        self.create(key, b"may be deleted")
        if self.create(key, b"may be deleted, too"):
            raise ValueError(
                f"{self.url} ignores `If-None-Match`, so two writers could overwrite each other's "
                "batches without an error. Use a store that supports such conditional writes, and "
                "check whether a proxy removes the header"
            )
        with suppress(PermissionError):
            self.delete([key])

    def _put(self, key: str, content: bytes | IO[bytes], mode: Any) -> str:
        if not isinstance(content, bytes):
            content.seek(0)
        if self._folder is None:
            return obstore.put(self.client, key, content, mode=mode)["e_tag"] or ""
        file = self._folder / key  # the client does not sync
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, content, 0o666, create=mode == "create")
        sync_folders(self._folder, file.parent)
        return obstore.head(self.client, key)["e_tag"] or ""

    def delete(self, keys: list[str]) -> None:
        """Delete objects; missing ones are no error."""
        for key in keys:
            with suppress(FileNotFoundError):
                self._ask(partial(obstore.delete, self.client, key), key)

    def _ask(self, work: Callable[[], Answer], key: str) -> Answer:
        try:
            return self._retries.patiently(work)
        except exceptions.PreconditionError as error:
            raise ReplacedError(short_text(error)) from None
        except exceptions.AlreadyExistsError:
            raise FileExistsError(f"{self.url}/{key}") from None
        except exceptions.InvalidPathError as error:  # one such name fails a whole listing
            raise ValueError(
                f"{self.url} has an object whose name the client cannot parse; rename it: "
                f"{short_text(error)}"
            ) from None
        except exceptions.BaseError as error:
            if _is_refusal(error):
                archived = f"`{key}` is archived; restore it, or exclude it with the option `glob`"
                hint = archived if "InvalidObjectState" in str(error) else CREDENTIALS
                text = f"{self.url} refuses: {short_text(error)}; {hint}"
                raise PermissionError(text) from None
            seconds = f" for {self._options.waitSeconds} s (option `waitSeconds`)"
            after = seconds if _is_transient(error) else ""
            raise ConnectionError(f"{self.url} fails{after}: {short_text(error)}") from None


class ObjectFile(io.RawIOBase):
    """An object as a read-only file; only the parts that are read are fetched."""

    def __init__(self, store: Store, info: ObjectInfo) -> None:
        self._store, self._info, self._at = store, info, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._info.size}[whence]
        self._at = base + place
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._info.size)
        if end <= self._at:
            return 0
        data = self._store.read_range(self._info, self._at, end)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def visible(objects: list[ObjectInfo]) -> list[ObjectInfo]:
    """Leave out names that begin with `_` or `.`, and everything below them."""
    return [info for info in objects if not re.search(r"(^|/)[._]", info.key)]


# ---- Local folders -------------------------------------------------------------------------------


def local_folder(url: str) -> Path | None:
    """Return the folder of a local address, None for a remote one."""
    if "://" in url and not url.startswith("file://"):
        return None
    return Path(url.removeprefix("file://")).absolute()


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_directory(folder.parent)


def sync_folders(root: Path, path: Path) -> None:
    """Make the name of `path` survive a power failure, and those of the folders down to it."""
    for folder in path.parents if path != root else ():
        sync_directory(folder)
        if folder == root:
            break


# ---- The client ----------------------------------------------------------------------------------

CLIENT = {  # settings of the client's HTTP
    *("allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_ca_certificate"),
    *("proxy_excludes", "proxy_url", "read_timeout", "root_certificate", "timeout", "user_agent"),
}


def storage_settings(options: OptionValues) -> dict[str, str]:
    """Return settings for the client. The client of Delta tables uses the same names."""
    check_hidden(options["store.*"])
    settings = {name: value.reveal() for name, value in options["store.*"].items()}
    defaults = {"timeout": "30s", "connect_timeout": "5s"}
    if options.endpoint:
        settings["endpoint"] = options.endpoint
        defaults["allow_http"] = str(options.endpoint.startswith("http://")).lower()
    return {**defaults, **settings}


def _client(options: OptionValues, url: str, folder: Path | None) -> Any:
    if folder:
        if not folder.is_dir():
            raise ValueError(f"there is no folder {folder}")
        return LocalStore(prefix=folder)
    settings: Any = storage_settings(options)
    client: Any = {name: settings.pop(name) for name in CLIENT & settings.keys()}
    retries: Any = {
        "max_retries": 1000,
        "retry_timeout": timedelta(seconds=min(options.waitSeconds / 4, CLIENT_SECONDS)),
        "backoff": {"max_backoff": timedelta(seconds=2)},
    }
    try:
        return from_url(url, config=settings, client_options=client, retry_config=retries)
    except (exceptions.BaseError, ValueError) as error:
        raise ValueError(f"{url}: {short_text(error)}") from None


def _info(meta: Any) -> ObjectInfo:
    return ObjectInfo(meta["path"], meta["e_tag"] or "", meta["size"])


def _is_transient(error: BaseException) -> bool:
    """Return whether a request is worth repeating: the client doesn't repeat all of these."""
    generic = type(error) is exceptions.GenericError and not _is_refusal(error)
    return generic and _status(error) != 404


def _is_refusal(error: BaseException) -> bool:
    """Return whether credentials were refused.

    Amazon answers an expired token with status 400. For a listing, the client's error is the same
    for every status.
    """
    refusals = exceptions.PermissionDeniedError, exceptions.UnauthenticatedError
    refused = isinstance(error, refusals) or _status(error) in (401, 403)
    return refused or "<Code>ExpiredToken</Code>" in str(error)


def _status(error: BaseException) -> int | None:
    """Return the status of the server's response. The address before it may have any digits."""
    status = re.search(r" status code: (\d{3})\b", str(error))
    return int(status[1]) if status else None


def short_text(error: BaseException) -> str:
    """Return one line, without colors, and without the query string of a signed address."""
    text = re.sub(r"\x1b\[\d*m|↳", "", str(error)).partition("Debug source")[0]
    text = text.partition(" 0: <unknown>")[0]  # a trace
    text = re.sub(r"<\?xml.*?(?:<Code>(\w+)</Code>.*|$)", r"\1", text, flags=re.S)
    return re.sub(r"\?[^\s)]*", "", " ".join(text.split())) or type(error).__name__
