"""JSON that comes from outside and is kept or passed on: of devices and clients, of the API, of Kafka.

Python's decoder reads what its encoder cannot write any more a few calls further down the stack. So what comes in has a
bound that is far from Python's, and all that was let in can be written anywhere.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from iot_mqtt.native import NotRead, decode, decode_once, is_deep

#: Objects and lists within one another.
MAX_DEPTH: Final = 64
#: The same in what is kept: more than was ever let in on purpose, and still far from Python's limit.
STORED_DEPTH: Final = 256

_MARK: Final = b"\xef\xbb\xbf"
#: What a text has that may hold one.
_HALF_A_PAIR: Final = re.compile(rb"\\u[dD][89a-fA-F]")

__all__ = ["MAX_DEPTH", "STORED_DEPTH", "is_deep", "read_json"]


def read_json(text: bytes, depth: int = MAX_DEPTH, *, once: bool = False) -> Any:
    """``ValueError`` says what is wrong with it, as the end of a sentence. ``once``: a name that stands twice in an
    object is wrong, too; else the last one counts.
    """
    try:
        value = (decode_once if once else decode)(text.removeprefix(_MARK).decode())
    except RecursionError as error:
        raise ValueError(_too_deep(depth)) from error
    except OverflowError as error:
        raise ValueError("holds a number that is too large") from error
    except NotRead:
        raise
    except ValueError as error:
        raise ValueError("is not JSON") from error
    if is_deep(text, value, depth):
        raise ValueError(_too_deep(depth))
    if _HALF_A_PAIR.search(text) is not None and not _is_text(value):
        raise ValueError("holds a surrogate: half of a character")
    return value


def _is_text(value: Any) -> bool:
    """Whether all of it can be written in UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _too_deep(depth: int) -> str:
    return f"is nested more than {depth} levels deep"
