"""Files that survive a power failure, and copying bytes: thin layers over the kernel."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READ_BYTES = 1 << 20

# Errors of a kernel, file system or container that cannot copy by itself.
_NOT_IN_KERNEL = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EXDEV, errno.EPERM)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Create `folder` and its parents. Raises `NotADirectoryError` if a file is in the way."""
    try:
        folder.mkdir(mode, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(
            f"{folder} cannot be a folder: there is a file of that name, or of a name above it; "
            "choose another path, or move the file away"
        ) from None


def open_own(path: Path, flags: int, mode: int = 0o640) -> int:
    """Open a file, but never through a symbolic link. Raises `OSError` that names the link."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW, mode)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        text = f"{path} is a symbolic link, which is not followed here; remove it"
        raise OSError(error.errno, text) from None


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
    file: Path, content: str | bytes, mode: int = 0o640, survives_power_failure: bool = True
) -> None:
    """Replace a file's content in one step: readers see all of the old one, or all of the new.

    A process that is killed meanwhile leaves its draft beside the file.
    """
    data = content.encode() if isinstance(content, str) else content
    draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with naming(file), os.fdopen(open_own(draft, flags, mode), "wb") as new:
            new.write(data)
            if survives_power_failure:
                new.flush()
                os.fsync(new.fileno())
        draft.replace(file)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if survives_power_failure:
        sync_directory(file.parent)


def begin_sync(file: int, offset: int, length: int) -> None:
    """Let the kernel start writing to the disk, so that the later `fsync` is shorter."""
    if hasattr(os, "posix_fadvise"):  # not on macOS
        os.posix_fadvise(file, offset, length, os.POSIX_FADV_DONTNEED)


def copy_some(reader: int, writer: int, count: int, source: int, target: int) -> int:
    """Copy up to `count` bytes between two offsets; return how many, 0 at the file's end.

    Where it can, the kernel copies, without passing the bytes through this process.
    """
    if not hasattr(os, "copy_file_range"):  # macOS
        return _copy_here(reader, writer, count, source, target)
    try:
        return os.copy_file_range(reader, writer, count, source, target)
    except OSError as error:
        if error.errno not in _NOT_IN_KERNEL:
            raise
        return _copy_here(reader, writer, count, source, target)


def _copy_here(reader: int, writer: int, count: int, source: int, target: int) -> int:
    return os.pwrite(writer, os.pread(reader, min(count, READ_BYTES), source), target)
