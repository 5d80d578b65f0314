"""Messages of the log as the platform gets them: one JSON object on one line each.

What a gateway's codec made is such an object already and passes as it is. Everything else is wrapped::

    {"id", "node", "client", "topic", "ts", "ingest_ts", "qos", "payload": <the JSON that was published>}
    {"id", "node", "client", "topic", "ts", "ingest_ts", "qos", "payload_b64": "<any other bytes>"}

``id`` is the spool and the position in the log, so a message that is sent twice has the same id twice. A payload is
copied, not written anew: numbers keep their digits and objects their order.
"""

from __future__ import annotations

import json
from base64 import b64encode

from iot_mqtt.ports.log import LogRun
from iot_mqtt.ports.uplink import Mode, Record
from iot_mqtt.uplink.rules import Rules

#: What makes an object a reading of a gateway, if ``gateway`` is who published it.
READING = frozenset(("id", "node", "gateway", "device", "ts"))
#: Headers kept ready; a bound, not a tuning knob.
MAX_HEADERS = 10_000
#: Whitespace that would end the line; in JSON it stands between tokens only.
_BREAKS = b"\r\n"

Headers = tuple[tuple[str, bytes], ...]


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


_NOT_JSON = object()
_decode = json.JSONDecoder(parse_constant=_refuse).decode


class RulePlan:
    """``ports.uplink.Plan``: rules, and what they make of messages."""

    __slots__ = ("rules", "_node", "_node_json", "_headers")

    def __init__(self, rules: Rules, node: str) -> None:
        self.rules = rules
        self._node = node.encode()
        self._node_json = json.dumps(node).encode()
        self._headers: dict[tuple[str, ...], Headers] = {}

    @property
    def filters(self) -> list[str]:
        return self.rules.filters

    def mode(self, topic: bytes) -> Mode | None:
        rule = self.rules.of(topic)
        return None if rule is None else rule.mode

    def records(self, run: LogRun, spool: str) -> list[Record]:
        rule = self.rules.of(run.topic)
        if rule is None:
            return []
        publisher, to, by_device = run.publisher, rule.to, rule.key == "device"
        own_key = run.topic.decode() if rule.key == "topic" else publisher
        came = int(run.arrived * 1000)
        plain = self._headers_of(("node",), came, {})
        head, middle = f'{{"id":"{spool}-'.encode(), self._middle(run, came)
        found = []
        for position, payload in enumerate(run.run.payloads(), run.position):
            value = _parsed(payload)
            if value is _NOT_JSON:
                line = b'%s%d%s"payload_b64":"%s"}' % (head, position, middle, b64encode(payload))
                found.append(Record(to, own_key, line, plain, came, position))
                continue
            if b"\n" in payload or b"\r" in payload:
                payload = payload.translate(None, _BREAKS)
            if isinstance(value, dict) and _is_reading(value, publisher):
                reading: dict[str, object] = value
                key = f"{publisher}/{reading['device']}" if by_device else own_key
                headers = self._headers_of(("node", "gateway", "codec", "schema"), came, reading)
                found.append(Record(to, key, payload, headers, came, position))
            else:
                line = b'%s%d%s"payload":%s}' % (head, position, middle, payload)
                found.append(Record(to, own_key, line, plain, came, position))
        return found

    def _middle(self, run: LogRun, came: int) -> bytes:
        """What the wrapped messages of a run share, from the end of the id to the payload's key."""
        client, topic = json.dumps(run.publisher).encode(), json.dumps(run.topic.decode()).encode()
        return b'","node":%s,"client":%s,"topic":%s,"ts":%d,"ingest_ts":%d,"qos":%d,' % (
            self._node_json,
            client,
            topic,
            came,
            came,
            run.run.qos,
        )

    def _headers_of(self, names: tuple[str, ...], came: int, reading: dict[str, object]) -> Headers:
        values = tuple(str(reading[name]) if name in reading else "" for name in names[1:])
        fixed = self._headers.get(values)
        if fixed is None:
            if len(self._headers) >= MAX_HEADERS:
                self._headers.clear()
            named = zip(names[1:], values, strict=True)
            fixed = (("node", self._node), *((name, value.encode()) for name, value in named if value))
            self._headers[values] = fixed
        return (*fixed, ("ingest_ts", b"%d" % came))


def _parsed(payload: bytes) -> object:
    """The JSON value of a payload."""
    try:
        return _decode(payload.decode())
    except (ValueError, RecursionError):
        return _NOT_JSON


def _is_reading(value: dict[str, object], publisher: str) -> bool:
    """Whether a gateway made it: nobody else can use its client id while it is there."""
    return value.get("gateway") == publisher and value.keys() >= READING
