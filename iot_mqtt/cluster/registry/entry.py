"""A member as it stands in the registry: a JSON object that a person can read and a later version can extend.

Unknown fields are ignored. A field of the wrong type or out of range makes the whole entry bad: a node that
cannot be understood is not dealt with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from iot_mqtt.ports.registry import Member

#: An entry has a few hundred bytes; what is larger was not written by a node.
MAXIMUM = 16 * 1024


class BadEntry(ValueError):
    """Data in the registry that does not describe a member."""


def segment(text: str) -> str:
    """A name as one element of a path: readable where possible, and never "." or "..", nor empty."""
    if not text:
        raise ValueError("a name in the registry is not empty")
    return quote(text, safe=":@+ ").replace(".", "%2E") if text.startswith(".") else quote(text, safe=":@+ ")


def dump(member: Member) -> bytes:
    fields = {
        "node_id": member.node_id,
        "number": member.number,
        "boot": member.boot,
        "version": member.version,
        "protocols": list(member.protocols),
        "addresses": dict(member.addresses or {}),
        "load": round(member.load, 4),
        "clients": member.clients,
        "draining": member.draining,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def load(name: str, data: bytes) -> Member:
    """The member that the entry of this name describes; ``BadEntry`` says why there is none."""
    if len(data) > MAXIMUM:
        raise BadEntry(f"has {len(data)} bytes, more than {MAXIMUM}")
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadEntry("is no JSON") from error
    if not isinstance(fields, dict):
        raise BadEntry("is no JSON object")
    member = Member(
        node_id=_text(fields, "node_id"),
        number=_number(fields, "number", 1, 255),
        boot=_number(fields, "boot", 0),
        version=_text(fields, "version"),
        protocols=_protocols(fields),
        addresses=_addresses(fields),
        load=_load(fields),
        clients=_number(fields, "clients", 0) if "clients" in fields else 0,
        draining=_flag(fields, "draining"),
    )
    try:
        place = segment(member.node_id)
    except ValueError as error:  # half a character
        raise BadEntry("has a node_id that cannot be written") from error
    if place != name:
        raise BadEntry(f"is of the node {member.node_id!r}")
    return member


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise BadEntry(f"has no {name}")
    return value


def _number(fields: Mapping[str, Any], name: str, least: int, most: int = 2**63 - 1) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadEntry(f"has no {name} between {least} and {most}")
    return value


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise BadEntry(f"has a {name} that is neither true nor false")
    return value


def _load(fields: Mapping[str, Any]) -> float:
    value = fields.get("load", 0.0)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
        raise BadEntry("has a load that is not between 0 and 1")
    return float(value)


def _protocols(fields: Mapping[str, Any]) -> tuple[int, ...]:
    value = fields.get("protocols", [1])
    if not isinstance(value, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        raise BadEntry("has protocols that are no list of numbers")
    return tuple(value)


def _addresses(fields: Mapping[str, Any]) -> dict[str, str] | None:
    value = fields.get("addresses")
    if not value:
        return None
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise BadEntry("has addresses that are no object of texts")
    return value
