"""Options of all formats that keep data in a store. Nothing here needs the store's client."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tutorial_pkg.builder import REQUIRED, Option, Secret, accepts, integer, not_empty, secret

_SCHEMES = ("file", "s3", "gs", "az", "abfss")
_HIDDEN = re.compile(r"key|secret|token|passw|credential|sas|signature|service_account$", re.I)
_PUBLIC = re.compile(r"skip_signature", re.I)
_NOT_IN_NAMES = re.compile(r"[*?#%]")  # to clients, these are not part of a name


@accepts(
    f"an address that begins with {', '.join(f'{scheme}://' for scheme in _SCHEMES)} and has none "
    "of `*?#%`, or a folder"
)
def address(text: str) -> str:
    scheme, separator, rest = text.rpartition("://")
    is_url = separator or re.match(r"[A-Za-z][\w+.-]*:/", text)  # `s3:/x` is no folder here
    if not rest.strip("/") or (is_url and scheme not in _SCHEMES) or "@" in rest.split("/")[0]:
        raise ValueError
    if separator and scheme != "file" and _NOT_IN_NAMES.search(rest):
        raise ValueError
    return text.rstrip("/")


def check_hidden(settings: Mapping[str, Secret]) -> None:
    """Raise `ValueError` for a credential in the program itself: plans and logs would show it."""
    for name, value in settings.items():
        if _HIDDEN.search(name) and not _PUBLIC.search(name) and not value.is_reference:
            raise ValueError(
                f"option `store.{name}` must name an environment variable, as in "
                f"`${{env:{name.upper()}}}`; plans and logs would show a literal value"
            )


SETTINGS = (
    "for the client, obstore: `store.region`, `store.access_key_id` …; credentials as `${env:NAME}`"
)
STORE = (
    Option("path", address, REQUIRED, "where it is: `s3://bucket/prefix`"),
    Option("endpoint", not_empty, None, "address of a server with S3's API that is not Amazon's"),
    Option("store.*", secret, None, SETTINGS),
    Option("waitSeconds", integer(0), 60, "how long to repeat a request to a store that fails"),
)
