"""Files that survive a power failure."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add `path` to system errors in this block: that of a full disk names no file."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def sync_directory(directory: Path) -> None:
    """Make new names in `directory` survive a power failure."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        with naming(directory):
            os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(
    file: Path,
    content: str | bytes | IO[bytes],
    mode: int = 0o640,
    survives_power_failure: bool = True,
    create: bool = False,
) -> None:
    """Replace a file's content in one step: readers see all of the old one, or all of the new.

    A process that is killed meanwhile leaves its draft beside the file. With `create`, an existing
    file is a `FileExistsError`.
    """
    data = content.encode() if isinstance(content, str) else content
    draft = file.with_name(f".{file.name}#{uuid.uuid4().int}")  # to `obstore`, `#1` hides a file
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with naming(file), os.fdopen(os.open(draft, flags, mode), "wb") as new:
            if isinstance(data, bytes):
                new.write(data)
            else:
                shutil.copyfileobj(data, new, 1 << 20)
            if survives_power_failure:
                new.flush()
                os.fsync(new.fileno())
        if create:
            os.link(draft, file)
        else:
            draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    if survives_power_failure:
        sync_directory(file.parent)
