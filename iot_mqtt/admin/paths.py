"""Names as parts of a path, for whoever writes one and for whoever reads it.

A part is percent-encoded, so that a slash stays inside it. That does not help ``.`` and ``..``, which mean another
place: browsers take them out of an address, in whatever code. They are written ``~.`` and ``~..``; and what looks like
that has one more ``~``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, unquote_to_bytes

_DOTS: Final = re.compile(r"~*\.\.?")
#: What would end a part of a path, or of a query, for whoever reads it; nothing else is encoded there.
_OF_PARTS: Final = str.maketrans({one: quote(one, safe="") for one in "%/?"})
_OF_QUERIES: Final = str.maketrans({one: quote(one, safe="") for one in "%&="})


def path_of(names: Iterable[str]) -> str:
    """The path of some names."""
    return "/".join(f"~{name}" if _DOTS.fullmatch(name) else quote(name, safe="") for name in names)


def name_in(part: bytes) -> str:
    """The name that a part stands for. Raises ``UnicodeDecodeError``."""
    text = unquote_to_bytes(part).decode()
    return text[1:] if text.startswith("~") and _DOTS.fullmatch(text) else text


def readable_path(names: Iterable[str]) -> str:
    """The path of some names as scopes and the audit log have it: people can read it, and each name stays one part."""
    return "/".join(name.translate(_OF_PARTS) for name in names)


def readable_query(pairs: Iterable[tuple[str, str]]) -> str:
    """The same of a query."""
    return "&".join(f"{name.translate(_OF_QUERIES)}={value.translate(_OF_QUERIES)}" for name, value in pairs)
