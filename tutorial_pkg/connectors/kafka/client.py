"""Kafka's client library: its settings, and how long to wait for brokers."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, NoReturn, TypeVar

from confluent_kafka import KafkaException

from tutorial_pkg.builder import OptionValues, Secret
from tutorial_pkg.connectors.kafka.options import FORMAT
from tutorial_pkg.core.pauses import patiently

Answer = TypeVar("Answer")
Settings = dict[str, Any]

CRITICAL = 2  # what the client prints; it prints each attempt to connect, else
ASK_SECONDS = 5.0  # for one answer at most, before it is asked for again

_SECRET = re.compile(r"password|secret|token|pem|jaas")
# A refusal is reported at once; all else may be a broker that is just being restarted.
_REFUSED = {"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"}
_AWAY = {
    *("_TRANSPORT", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_ALL_BROKERS_DOWN", "_RESOLVE", "_NOENT"),
    *("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "BROKER_NOT_AVAILABLE"),
    *("REQUEST_TIMED_OUT", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"),
    *("OFFSET_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR"),
    *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "NETWORK_EXCEPTION"),
}


class Brokers:
    """What the options say of them: where they are, and how long to wait for them.

    Notes what a client complains of in the background. `limit` is the option that sets the bound.
    """

    def __init__(self, options: OptionValues, seconds: float, limit: str) -> None:
        self._given: dict[str, Secret] = options["kafka.*"]
        self.where = str(self._given.get("bootstrap.servers", ""))
        self.seconds, self._limit = seconds, limit
        self.ask_seconds = min(ASK_SECONDS, seconds)
        self._last: Any = None
        if not self.where:
            raise ValueError(
                f"format `{FORMAT}`: option `kafka.bootstrap.servers` is missing; give the "
                "brokers: `host:port`, several with commas between them"
            )

    @cached_property
    def settings(self) -> Settings:
        """The options `kafka.…`, as they are in this process."""
        return {name: value.reveal() for name, value in self._given.items()}

    @classmethod
    def of_source(cls, options: OptionValues) -> Brokers:
        """For a source, whose bound has the name that it has in Spark's."""
        name = "kafkaConsumer.pollTimeoutMs"
        return cls(options, options[name] / 1000, name)

    def client(
        self, kind: Callable[[Settings], Any], ours: Settings | None = None, **fixed: Any
    ) -> Any:
        """One of this kind, with the user's settings. Raises `ValueError` for wrong ones."""
        settings = {"log_level": CRITICAL, **(ours or {}), **self.settings}
        settings |= {name.replace("_", "."): value for name, value in fixed.items()}
        try:
            return kind({**settings, "error_cb": self.note})
        except KafkaException as error:
            text = error.args[0].str()
            for name, value in self.settings.items():
                if value and _SECRET.search(name):
                    text = text.replace(value, "***")
            raise ValueError(f"format `{FORMAT}`: an option `kafka.…` is wrong: {text}") from None

    def note(self, error: Any) -> None:
        """What a client calls with its errors."""
        self._last = error

    def raise_refusal(self) -> None:
        """Raise `PermissionError` when the broker does not let us in: waiting does not help."""
        if self._last is not None and self._last.name() in _REFUSED:
            raise PermissionError(f"Kafka at {self.where} refused: {self._last.str()}")

    def patiently(self, ask: Callable[[], Answer], poll: Callable[[], object]) -> Answer:
        """The answer, asked for again while the brokers are away.

        `poll` has the client call `note`. Raises `TimeoutError`, `PermissionError`, and what else
        the client raises.
        """

        def may_pass(error: Exception) -> bool:
            if not isinstance(error, KafkaException):
                return False
            poll()
            if self._last is None or error.args[0].name() in _REFUSED:
                self._last = error.args[0]
            self.raise_refusal()
            return error.args[0].name() in _AWAY

        try:
            return patiently(ask, may_pass, self.seconds)
        except KafkaException as error:
            if not may_pass(error):
                raise RuntimeError(f"Kafka at {self.where} says: {error.args[0].str()}") from None
            self.give_up()

    def give_up(self) -> NoReturn:
        """Raise `TimeoutError` with what the client complained of last."""
        reason = f": {self._last.str()}" if self._last is not None else ""
        raise TimeoutError(
            f"Kafka at {self.where} has not answered for {self.seconds:g} s "
            f"(option `{self._limit}`){reason}"
        ) from None
