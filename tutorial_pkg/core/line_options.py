"""Options and schema of formats of lines, without Arrow: Spark starts a process for a schema."""

from __future__ import annotations

from tutorial_pkg.core.options import Option, OptionValues, choice

EVENT_TIME = Option(
    "eventTime",
    choice("millis_prefix"),
    None,
    "add event_time TIMESTAMP, read from the digits before a line's first comma "
    "(epoch milliseconds: 1 to 15 digits, nothing else, up to the year 9999)",
)
MODE = Option(
    "mode",
    choice("PERMISSIVE", "DROPMALFORMED", "FAILFAST"),
    "PERMISSIVE",
    "lines without such a prefix: keep them with a null event_time, drop them, or fail the query "
    "with an error that quotes the line",
)


def lines_schema(options: OptionValues) -> str:
    """Return the schema of `lines_batch`: `value STRING`, with eventTime also `event_time`."""
    return "value STRING, event_time TIMESTAMP_LTZ" if options.eventTime else "value STRING"
