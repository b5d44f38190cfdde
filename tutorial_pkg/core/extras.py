"""Optional packages, installed with the extras of this one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Turn a failed import in this block into an `ImportError` that names the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"this needs the package {error.name}: pip install 'tutorial_pkg[{name}]'"
        ) from None
