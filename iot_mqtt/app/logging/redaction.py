"""Keeping passwords and payloads out of the log, whatever a careless line puts into it.

Fields with telling names lose their value. Bytes lose theirs whatever their name is: in a broker they are
payloads, packets or passwords, and where they are a topic somebody has to decode it on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from structlog.typing import EventDict, WrappedLogger

from iot_mqtt.secrecy import NAMES, masked_text

#: Redacting it again changes nothing.
MASK = "***"

_SECRET = re.compile(rf"{NAMES}|payload|correlation|auth(entication)?_data", re.IGNORECASE)

#: The same words written into a sentence: ``password=hunter2``, ``"token": "abc"``, ``Bearer abc``.
_IN_TEXT = re.compile(
    r"(?P<name>\b[\w.]*(?:passw|passphrase|psk|secret|token|key\.pem|api_?key|payload)[\w.]*[\"']?\s*[=:]\s*)"
    r"(?P<value>b?\"[^\"]*\"|b?'[^']*'|[^\s,;)}\]]+)|(?P<bearer>\bBearer\s+)\S+",
    re.IGNORECASE,
)

#: Bytes as a repr or a traceback shows them.
_BYTES_IN_TEXT = re.compile(r"\bb(?P<quote>['\"])(?:\\.|(?!(?P=quote)).)*(?P=quote)", re.DOTALL)


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """The structlog processor."""
    return {name: _field(name, value) for name, value in event.items()}


def redact_text(text: str) -> str:
    """A sentence without the values of secrets, and without bytes."""
    text = _BYTES_IN_TEXT.sub(f"b{MASK}", masked_text(text))
    return _IN_TEXT.sub(lambda found: f"{found['name'] or found['bearer']}{MASK}", text)


def _field(name: str, value: Any) -> Any:
    if name.startswith("_") or name == "exc_info":
        return value  # structlog's own, rendered later
    if _SECRET.search(name) and not isinstance(value, bool | int | float):
        return MASK
    return _value(value)


def _value(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[{len(value)} bytes]"
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Mapping):
        return {inner: _field(str(inner), item) for inner, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_value(item) for item in value]
    return value
