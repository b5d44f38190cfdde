"""Kafka's client library: where it comes from, its settings, how long it is waited for."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from tutorial_pkg.core.options import OptionValues

Answer = TypeVar("Answer")
Settings = dict[str, Any]

CRITICAL = 2  # what the client prints; it prints each attempt to connect, else
RETRY_SECONDS = 0.2
ASK_SECONDS = 5.0  # for one answer at most, before it is asked for again

_SECRET = re.compile(r"password|secret|token|pem|jaas")
_SHOWN = re.compile(r"kafka\.(ssl\.key\.pem|sasl\.jaas\.config)")
_REFERENCE = re.compile(r"\$\{env:\w+\}")
# Who is refused is told at once; all else may be a broker that is just being restarted.
_REFUSED = {"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"}
_AWAY = {
    *("_TRANSPORT", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_ALL_BROKERS_DOWN", "_RESOLVE", "_NOENT"),
    *("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "BROKER_NOT_AVAILABLE"),
    *("REQUEST_TIMED_OUT", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"),
}


def library() -> Any:
    """The package `confluent_kafka`. Raises `ImportError` that says how to get it."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise ImportError(
            "format `kafka_py` needs Kafka's client: pip install 'tutorial_pkg[kafka]'"
        ) from error
    return confluent_kafka


def made(kind: Callable[[Settings], Any], settings: Settings) -> Any:
    """A client of this kind. Raises `ValueError` for settings that it does not take."""
    try:
        return kind({"log_level": CRITICAL, **settings})
    except library().KafkaException as error:
        text = error.args[0].str()
        for name, value in settings.items():
            if value and _SECRET.search(name):
                text = text.replace(str(value), "***")
        raise ValueError(f"format `kafka_py`: an option `kafka.…` is wrong: {text}") from None


def check_hidden(options: Mapping[str, str]) -> None:
    """Raise `ValueError` for a secret that Spark would show, in an option as it was written.

    Spark's plans and its UI hide a value only by its option's name: password, secret, token.
    """
    for name, value in options.items():
        if _SHOWN.fullmatch(name.lower()) and not _REFERENCE.fullmatch(value.strip()):
            raise ValueError(
                f"format `kafka_py`: Spark would show option `{name}` in its plans; name an "
                "environment variable instead: `${env:NAME}`"
            )


def user_settings(options: OptionValues) -> Settings:
    """The options `kafka.…`, for this process. Raises `ValueError` without servers."""
    given = {name: value.reveal() for name, value in options["kafka.*"].items()}
    if not given.get("bootstrap.servers"):
        raise ValueError(
            "format `kafka_py`: option `kafka.bootstrap.servers` is missing; give the brokers: "
            "`host:port`, several with commas between them"
        )
    return given


def servers(options: OptionValues) -> str:
    """As people may see them. Raises `ValueError` without them."""
    user_settings(options)
    return str(options["kafka.*"]["bootstrap.servers"])


def reading_troubles(options: OptionValues) -> Troubles:
    """For a source, whose bound has the name that it has in Spark's."""
    name = "kafkaConsumer.pollTimeoutMs"
    return Troubles(options, options[name] / 1000, name)


class Troubles:
    """Notes what the client complains of in the background, and waits with a bound.

    `limit` is the option that sets the bound.
    """

    def __init__(self, options: OptionValues, seconds: float, limit: str) -> None:
        self._servers = servers(options)
        self.seconds, self._limit = seconds, limit
        self.ask_seconds = min(ASK_SECONDS, seconds)
        self._last: Any = None

    def note(self, error: Any) -> None:
        """What the client calls with its errors."""
        self._last = error

    def raise_refusal(self) -> None:
        """Raise `PermissionError` when the broker does not let us in: waiting does not help."""
        if self._last is not None and self._last.name() in _REFUSED:
            raise PermissionError(f"Kafka at {self._servers} refused: {self._last.str()}")

    def patiently(self, ask: Callable[[], Answer], poll: Callable[[], object]) -> Answer:
        """The answer, asked for again while the brokers are away.

        `poll` has the client call `note`. Raises `TimeoutError`, `PermissionError`, and what else
        the client raises.
        """
        deadline = time.monotonic() + self.seconds
        while True:
            try:
                return ask()
            except library().KafkaException as error:
                poll()
                self._judge(error.args[0], deadline)
            time.sleep(RETRY_SECONDS)

    def give_up(self) -> NoReturn:
        """Raise `TimeoutError` with what the client complained of last."""
        reason = f": {self._last.str()}" if self._last is not None else ""
        raise TimeoutError(
            f"Kafka at {self._servers} has not answered for {self.seconds:g} s "
            f"(option `{self._limit}`){reason}"
        )

    def _judge(self, error: Any, deadline: float) -> None:
        self._last = self._last or error
        if error.name() in _REFUSED:
            self._last = error
        self.raise_refusal()
        if error.name() not in _AWAY:
            raise RuntimeError(f"Kafka at {self._servers} says: {error.str()}") from None
        if time.monotonic() >= deadline:
            self.give_up()
