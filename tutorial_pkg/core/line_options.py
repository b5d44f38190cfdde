"""What a format of lines asks for, without what makes rows of them.

Spark starts a process to make a source and ask for its schema. That needs no Arrow, which is a
third of the CPU time of all its imports.
"""

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
    "what eventTime does with a line that has no such prefix: keep it with a null event_time, "
    "drop it, or fail the query with an error that quotes it",
)


def lines_schema(options: OptionValues) -> str:
    """The columns that `lines_batch` makes: `value STRING`, with eventTime also `event_time`."""
    return "value STRING, event_time TIMESTAMP_LTZ" if options.eventTime else "value STRING"
