"""The session's time zone, as Spark takes it, in words that Arrow takes too."""

from __future__ import annotations

import re

# Java's names of three letters (`java.time.ZoneId.SHORT_IDS`) that no database of time zones has.
_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "Z": "UTC",
}
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{1,2}))?")


def arrow_zone(zone: str) -> str:
    """`zone` as Arrow knows it: `GMT+5` is `+05:00`, `PST` is `America/Los_Angeles`."""
    offset = _OFFSET.fullmatch(zone)
    if not offset:
        return _SHORT.get(zone, zone)
    sign, hours, minutes = offset.groups("0")
    return f"{sign}{int(hours):02}:{int(minutes):02}"
