r"""A call of the API on its way to another node, and that node's answer on its way back, as bytes.

::

    question   {"method", "path", "values", "query", "body", "caller", "address"}
    answer     {"status", "error", "detail"}                   it was refused
               {"value"}
    of a list  {"cursors", "keys", "more"} \n item \n item …   items stay texts: nobody reads them on the way

A JSON text has no line ends outside of its strings, and none inside.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from http import HTTPStatus
from itertools import accumulate
from typing import Any

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.callers import Caller, role_of
from iot_mqtt.admin.errors import ApiError
from iot_mqtt.admin.json_text import as_json, read_json
from iot_mqtt.admin.merging import Part
from iot_mqtt.admin.routes import Answered, Route

#: Bytes of the items of one node's page, about, and of any other answer.
PAGE_BYTES, ANSWER_BYTES = 1024 * 1024, 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Missing:
    """A node that is not in an answer."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Said:
    """What one node answered: a value, or its part of a list, or why there is none."""

    node: str
    value: Any = None
    error: ApiError | None = None


def question(route: Route, call: Call) -> bytes:
    """A call, for another node."""
    who = call.caller
    asked = {
        "method": route.method,
        "path": route.path,
        "values": call.path,
        "query": call.query,
        "body": b64encode(call.body).decode(),
        "caller": None if who is None else {"name": who.name, "role": who.role.word, "scope": who.scope},
        "address": call.address,
    }
    return as_json(asked)


def asked_in(body: bytes) -> tuple[str, str, Call]:
    """Method and path of another node's call, and the call. Raises ``ValueError`` and ``KeyError``."""
    asked = read_json(body)
    caller = asked["caller"]
    who = None if caller is None else Caller(caller["name"], role_of(caller["role"]), tuple(caller["scope"]))
    call = Call(asked["values"], asked["query"], b64decode(asked["body"]), who, asked["address"])
    return asked["method"], asked["path"], call


def written(said: Said) -> bytes:
    """One node's answer, for another one. Raises ``ValueError`` for one that is too long."""
    error, value = said.error, said.value
    if error is not None:
        return as_json({"status": error.status, "error": error.error, "detail": error.detail})
    if isinstance(value, Part):
        return _listed(value)
    answer = as_json({"value": value.value if isinstance(value, Answered) else value})
    if len(answer) > ANSWER_BYTES:
        raise ValueError(f"its answer has {len(answer)} bytes, more than {ANSWER_BYTES}")
    return answer


def _listed(part: Part) -> bytes:
    sizes = list(accumulate(map(len, part.items)))
    # A list without cursors cannot go on where it was cut.
    count = sum(size <= PAGE_BYTES for size in sizes) + 1 if part.cursors else len(sizes)
    if not part.cursors and sizes and sizes[-1] > ANSWER_BYTES:
        raise ValueError(f"its answer has {sizes[-1]} bytes, more than {ANSWER_BYTES}")
    more = part.more or count < len(sizes)
    head = as_json({"cursors": part.cursors[:count], "keys": part.keys[:count], "more": more})
    return b"\n".join((head, *part.items[:count]))


def read(node: str, answer: bytes | str, *, listed: bool) -> Said | Missing:
    """What another node has answered; ``listed``: with its part of a list, if it is no refusal."""
    if isinstance(answer, str):
        return Missing(node, answer)
    head, *items = answer.split(b"\n")
    try:
        said = read_json(head)
        if "status" in said:
            return Said(node, error=ApiError(HTTPStatus(said["status"]), str(said["error"]), str(said["detail"])))
        if not listed:
            return Said(node, said["value"])
        part = Part(
            node, items, list(map(str, said["cursors"])), list(map(list, said["keys"])), more=bool(said["more"])
        )
    except (ValueError, KeyError, TypeError):
        return Missing(node, "its answer cannot be understood")
    if any(len(one) != len(items) for one in (part.cursors, part.keys) if one):
        return Missing(node, "its answer cannot be understood")
    return Said(node, part)
