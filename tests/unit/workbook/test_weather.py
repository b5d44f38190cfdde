"""The weather service does what its documentation says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from workbook.weather import PAGE, Weather


@pytest.fixture
def weather() -> Iterator[Weather]:
    service = Weather()
    yield service
    service.close()


def get(url: str, **headers: str) -> tuple[int, Any, Any]:
    """The status, the content and the headers of an answer."""
    try:
        with urlopen(Request(url, headers=headers), timeout=10) as answer:
            return answer.status, json.load(answer), answer.headers
    except HTTPError as error:
        return error.code, error.read(), error.headers


def post(url: str, text: str, **headers: str) -> int:
    with urlopen(Request(url, text.encode(), headers), timeout=10) as answer:
        status: int = answer.status
        return status


def test_pages_lead_to_the_end(weather: Weather) -> None:
    weather.measure("hill", range(PAGE + 7))
    found, position = [], 0
    while True:
        _, page, _ = get(f"{weather.url}/hill/readings?from={position}")
        found += page["readings"]
        if page["next"] == position:
            break
        position = page["next"]
    assert found == [{"id": n, "degrees": n} for n in range(PAGE + 7)]
    assert get(f"{weather.url}/harbour/readings")[1] == {"readings": [], "next": 0}


def test_a_page_that_is_the_same_has_no_body(weather: Weather) -> None:
    weather.measure("hill", [1])
    url = f"{weather.url}/hill/readings?from=0"
    etag = get(url)[2]["ETag"]
    assert get(url, **{"If-None-Match": etag})[:2] == (304, b"")
    weather.measure("hill", [2])
    assert get(url, **{"If-None-Match": etag})[0] == 200
    assert [(one.status, one.size > 0) for one in weather.requests] == [
        (200, True),
        (304, False),
        (200, True),
    ]


def test_it_is_busy_as_often_as_it_was_told(weather: Weather) -> None:
    weather.busy(1, 429, retry_after=0.2)
    weather.busy(1)
    url = f"{weather.url}/hill/readings"
    first, second, third = (get(url) for _ in range(3))
    assert (first[0], first[2]["Retry-After"]) == (429, "1")
    assert (second[0], second[2]["Retry-After"]) == (503, None)
    assert third[0] == 200


def test_the_same_key_counts_once(weather: Weather) -> None:
    url = f"{weather.url}/hill/alarms"
    assert [post(url, "hot", **{"Idempotency-Key": key}) for key in "aab"] == [201, 200, 201]
    assert [post(url, "cold") for _ in range(2)] == [201, 201]
    assert weather.alarms("hill") == ["hot", "hot", "cold", "cold"]
    assert weather.alarms("harbour") == []


@pytest.mark.parametrize("path", ["hill", "hill/winds", "hill/readings?from=-1"])
def test_what_it_does_not_have(weather: Weather, path: str) -> None:
    assert get(f"{weather.url}/{path}")[0] == 404


def test_an_alarm_is_short(weather: Weather) -> None:
    with pytest.raises(HTTPError, match="400"):
        post(f"{weather.url}/hill/alarms", "x" * 10_001)
