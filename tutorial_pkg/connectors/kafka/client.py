"""Kafka's client library: its settings, and what its errors mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NoReturn

from confluent_kafka import KafkaException

from tutorial_pkg.builder import OptionValues, Secret
from tutorial_pkg.connectors.kafka.options import FORMAT

Settings = dict[str, Any]

CRITICAL = 2  # otherwise the client prints each attempt to connect
REQUEST_SECONDS = 5.0  # for one response; after that the request is repeated

_SECRET = re.compile(r"password|secret|token|pem|jaas")
_REFUSED = {"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"}
# A broker that is being restarted, or an election.
_AWAY = {
    *("_TRANSPORT", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_ALL_BROKERS_DOWN", "_RESOLVE", "_NOENT"),
    *("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "BROKER_NOT_AVAILABLE"),
    *("REQUEST_TIMED_OUT", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"),
    *("OFFSET_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR"),
    *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "NETWORK_EXCEPTION"),
}


class Brokers:
    """The brokers that the options name, and the last error that a client reported of them."""

    def __init__(self, options: OptionValues) -> None:
        self._options: dict[str, Secret] = options["kafka.*"]
        self.address = str(self._options.get("bootstrap.servers", ""))
        self._last: Any = None
        if not self.address:
            raise ValueError(
                f"format `{FORMAT}`: option `kafka.bootstrap.servers` is missing; name the "
                "brokers: `host:port`, several with commas between them"
            )

    @cached_property
    def settings(self) -> Settings:
        """The options `kafka.…`, with their environment variables looked up in this process."""
        return {name: value.reveal() for name, value in self._options.items()}

    def client(
        self, kind: Callable[[Settings], Any], defaults: Settings | None = None, **fixed: Any
    ) -> Any:
        """Return a client of this kind. Raises `ValueError` for an option it does not accept."""
        settings = {"log_level": CRITICAL, **(defaults or {}), **self.settings}
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
        """Remember an error; clients call this with what happens in the background.

        After a refusal they go on to report that the connection was closed.
        """
        if self._last is None or self._last.name() not in _REFUSED:
            self._last = error

    def raise_refusal(self) -> None:
        """Raise `PermissionError` if the brokers refused access: waiting does not help."""
        if self._last is not None and self._last.name() in _REFUSED:
            raise PermissionError(f"Kafka at {self.address} refused access: {self._last.str()}")

    @contextmanager
    def responding(self, poll: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Turn the client's errors into Python's: `TimeoutError` for those that may pass.

        `poll` has the client report background errors first, which say more.
        """
        try:
            yield
        except KafkaException as error:
            poll()
            if self._last is None or error.args[0].name() in _REFUSED:
                self._last = error.args[0]
            self.raise_refusal()
            if error.args[0].name() in _AWAY:
                self.give_up()
            text = f"request to Kafka at {self.address} failed: {error.args[0].str()}"
            raise RuntimeError(text) from None
        self._last = None

    def give_up(self) -> NoReturn:
        reason = f": {self._last.str()}" if self._last is not None else ""
        raise TimeoutError(f"Kafka at {self.address} does not respond{reason}") from None
