"""Imports on first use, and imports of optional packages, which the extras install."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package with names from its modules; `{"a": "a"}` is one.

    Each of Spark's processes needs one connector only.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{modules[name]}")
        return module if modules[name] == name else getattr(module, name)

    return get


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Turn a failed import in this block into an `ImportError` that names the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"this needs the package {error.name}: pip install 'tutorial_pkg[{name}]'"
        ) from None
