"""Import a package's names when they are first used.

Each of Spark's Python processes imports the package to find one connector in it, so no process
should pay for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package with names from other modules.

    Args:
        package: the package's `__name__`.
        modules: the module of each name, relative to the package. `{"tls": "tls"}` is the submodule
            itself.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{modules[name]}")
        return module if modules[name] == name else getattr(module, name)

    return get
