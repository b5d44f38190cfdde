"""Packages that not everybody needs are not installed with this one, but with its extras."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around imports: what is missing belongs to this extra.

    Raises `ImportError` that says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"this needs the package {error.name}: pip install 'tutorial_pkg[{name}]'"
        ) from None
