"""Secrets that an option names instead of holding them."""

from __future__ import annotations

import pytest

from tutorial_pkg.core.options import Option, Options
from tutorial_pkg.core.secrets import secret

OPTIONS = Options("demo", [Option("password", secret, None, "a text", "for the server")])


@pytest.mark.parametrize("password", ["p w'\"@:/", "${HOME}", "$x", "ü"])
def test_what_is_no_reference_stays_as_it_is(password: str) -> None:
    assert secret(password) == password


def test_a_reference_is_the_variable_and_nothing_in_that_is_one(monkeypatch) -> None:
    monkeypatch.setenv("DEMO_PASSWORD", "p w'\"@${env:HOME}\\1")
    assert secret("a ${env:DEMO_PASSWORD}!") == "a p w'\"@${env:HOME}\\1!"


def test_a_variable_that_is_not_set_is_named(monkeypatch) -> None:
    monkeypatch.delenv("DEMO_PASSWORD", raising=False)
    with pytest.raises(ValueError, match=r"option `password` .* got '\$\{env:DEMO_PASSWORD\}'"):
        OPTIONS.parse({"password": "${env:DEMO_PASSWORD}"})
