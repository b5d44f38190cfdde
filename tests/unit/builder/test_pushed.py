"""`SourceBuilder.pushed` without Spark: clients that call back, block, fail, resume and stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_connector_tests.query_process import wait_until
from tests.stream_runs import NUMBER, running
from tutorial_pkg.builder import SourceBuilder, builder_status, pushed

pytestmark = pytest.mark.usefixtures("in_process")


class Feed:
    """Pushes the numbers that follow a position, and reuses its row."""

    def __init__(self, most: int = 1_000_000) -> None:
        self.most = most
        self.resumed: list[Any] = []
        self.emitted: list[int] = []
        self.ended = 0
        self.source: Any = SourceBuilder.pushed("feed", "number LONG", self.listen).build()

    def listen(self, context: Any, emit: Any, resume_from: int | None) -> None:
        self.resumed.append(resume_from)
        row: dict[str, int] = {}
        try:
            for number in range(0 if resume_from is None else resume_from + 1, self.most):
                row["number"] = number
                emit(row, number)
                self.emitted.append(number)
            self.done(context)
        finally:
            self.ended += 1

    def done(self, context: Any) -> None:
        context.stopped.wait(60)


def test_emit_blocks_while_the_buffer_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushed, "MOST_WAITING", 5)
    feed = Feed()
    with running(feed.source, tmp_path, maxBacklogBytes=1) as run:
        run.latest()
        frames = lambda: [one.rows for one in builder_status(tmp_path).instances.values()]  # noqa: E731
        wait_until(lambda: any(frames()), 60, "a frame")
        [in_log] = frames()
        wait_until(lambda: len(feed.emitted) == in_log + 5, 60, "a full buffer")
    assert len(feed.emitted) == in_log + 5
    assert feed.ended == 1


def test_rows_before_an_error_of_listen_are_logged(tmp_path: Path) -> None:
    feed = Feed(most=3)
    feed.done = lambda context: [][1]  # type: ignore[method-assign]
    with running(feed.source, tmp_path) as run:
        text = "FunctionError: format `feed`: `listen` of instance 0 failed: IndexError: list index"
        assert run.failure().startswith(text)
    with running(feed.source, tmp_path) as run:
        run.reader.prepareForTriggerAvailableNow()
        assert run.rows() == [0, 1, 2]


def test_lost_connection_is_retried_at_the_position(tmp_path: Path) -> None:
    """Once the client raises its own error, otherwise it returns. Without rows, time is up."""
    feed = Feed(most=3)
    feed.source = SourceBuilder.pushed("feed", NUMBER, feed.listen).retry(EOFError).build()

    def done(context: Any) -> None:
        feed.most = min(feed.most + 1, 6)
        if feed.most == 5:
            raise EOFError

    feed.done = done  # type: ignore[method-assign]
    with running(feed.source, tmp_path, retryPauseMillis=1, retrySeconds=1) as run:
        assert run.rows_until(lambda found: len(found) >= 6) == [*range(6)]
        assert "(tried for 1 s: option `retrySeconds`)" in run.failure()
    assert feed.resumed[:5] == [None, 2, 3, 4, 5]


@pytest.mark.parametrize("connects", [False, True])
def test_slow_connect_is_not_retried_forever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connects: bool
) -> None:
    """A client that waits for a connection, or has one without events, fails after 0.3 s."""
    monkeypatch.setattr(pushed, "IDLE_SECONDS", 0.02)
    attempts = []

    def listen(context: Any, emit: Any, resume_from: Any) -> None:
        attempts.append(0)
        if len(attempts) == 5:
            emit(7)
        if connects:
            context.connected.set()
        context.stopped.wait(0.3)

    builder = SourceBuilder.pushed("slow", "number LONG", listen).retry(seconds=0.2, pause=0.001)
    with running(builder.build(), tmp_path) as run:
        if connects:
            assert run.rows_until(bool) == [7]
        else:
            assert "(tried for 0.2 s: option `retrySeconds`)" in run.failure()
            assert len(attempts) < 5


def test_positions_belong_to_their_instances(tmp_path: Path) -> None:
    def listen(context: Any, emit: Any, resume_from: Any) -> None:
        resumed.append(resume_from)
        emit(context.index, f"{context.index} of {context.count}")
        emit(context.index)  # without a position, that of the row before stays
        context.stopped.wait(60)

    resumed: list[Any] = []
    source: Any = SourceBuilder.pushed("shares", "number LONG", listen).distributed(2).build()
    offset = None
    for expected in ([None, None], ["0 of 2", "1 of 2"]):
        resumed.clear()
        with running(source, tmp_path, offset) as run:
            run.rows_until(lambda found: sorted(found) == [0, 0, 1, 1])
            offset = run.offset
        assert sorted(resumed, key=str) == expected
    with running(source, tmp_path, parallelism=3) as run:
        assert "set `parallelism` to 2" in run.failure()
