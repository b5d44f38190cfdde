"""A type checker knows the state that a builder's functions share."""

from __future__ import annotations

from pathlib import Path

from mypy import api


def test_a_function_of_another_state_is_refused_by_mypy() -> None:
    """`wrong_states.py` says where an error must be; one that is missing there is an error, too.

    With no option of its own it finds in mypy's cache what `make style` has put there.
    """
    file = Path(__file__).with_name("wrong_states.py")
    found, failed, status = api.run([str(file)])
    assert (found, failed, status) == ("Success: no issues found in 1 source file\n", "", 0)
