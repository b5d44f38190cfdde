"""Secrets that an option names instead of holding them, and texts that show none."""

from __future__ import annotations

import pickle

import pytest

from tutorial_pkg.core.options import REQUIRED, Option, Options, choice, integer, secret
from tutorial_pkg.core.secrets import Secret, redacted


def test_reference_is_replaced_once(monkeypatch) -> None:
    monkeypatch.setenv("DEMO_PASSWORD", "p w'\"@${env:HOME}\\1")
    assert Secret("a ${env:DEMO_PASSWORD}!").reveal() == "a p w'\"@${env:HOME}\\1!"
    assert Secret("p w'\"@:/ ${HOME} $x ü").reveal() == "p w'\"@:/ ${HOME} $x ü"


def test_variable_is_looked_up_on_use(monkeypatch) -> None:
    monkeypatch.setenv("DEMO_PASSWORD", "hunter2")
    values = Options("demo", [Option("password", secret, None, "")]).parse(
        {"password": "${env:DEMO_PASSWORD}"}
    )
    travelled = pickle.dumps(values)
    assert b"hunter2" not in travelled
    monkeypatch.setenv("DEMO_PASSWORD", "renewed")  # in the process that connects
    assert pickle.loads(travelled).password.reveal() == "renewed"


def test_unset_variable_is_named(monkeypatch) -> None:
    monkeypatch.delenv("NOPE", raising=False)
    with pytest.raises(ValueError, match="environment variable `NOPE`, which is not set") as error:
        Secret("nats://bob:hunter2@${env:NOPE}").reveal()
    assert "hunter2" not in str(error.value)


SHOWN = {
    "nats://bob:hunter2@host:1": "nats://***@host:1",
    "nats://hunter2@host": "nats://***@host",
    "nats://b:hunter,2@one,nats://b:hun@ter/2@two": "nats://***@two",
    "bob:hunter2@host": "***@host",
    "host=x password='hunter2 \\' hunter2'": "host=x password=***",
    "postgresql://host/db?sslpassword=hunter2": "postgresql://host/db?sslpassword=***",
    'org.x.Login required username="u" password="hunter2";': (
        'org.x.Login required username="u" password=***'
    ),
    '{"password": "hunter2"}': '{"password":***',
    "https://host:80/a?b=c": "https://host:80/a?b=c",
    '{"orders": {"0": -3}}': '{"orders": {"0": -3}}',
    "me@example.org": "me@example.org",
}


@pytest.mark.parametrize("text", SHOWN)
def test_secrets_in_texts_are_hidden(text: str) -> None:
    assert redacted(text) == str(Secret(text)) == SHOWN[text]
    assert "hunter2" not in repr(Secret("hunter2"))


WRONG = Options(
    "demo",
    [
        Option("servers", integer(1), REQUIRED, ""),
        Option("client.*", choice("a"), None, ""),
        Option("apiKey", integer(1), None, ""),
    ],
)


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("servers", "nats://bob:hunter2@${env:NOPE}", "got 'nats://***@${env:NOPE}'"),
        ("servers", "host=x password=hunter2", "got 'host=x password=***'"),
        ("client.sasl.password", "hunter2", "option `client.sasl.password` must be a, got '***'"),
        ("client.sasl.jaas.config", "x hunter2", "got '***'"),
        ("client.ssl.key.pem", "--- hunter2", "got '***'"),
        ("apiKey", "hunter2", "option `apiKey` must be 1 or more, got '***'"),
    ],
)
def test_wrong_value_hides_its_secret(name: str, text: str, shown: str) -> None:
    with pytest.raises(ValueError) as error:
        WRONG.parse({"servers": "1", name: text})
    assert str(error.value).endswith(shown)
    assert "hunter2" not in str(error.value)
