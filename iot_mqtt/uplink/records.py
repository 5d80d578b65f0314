"""Messages of the log as the platform gets them: one JSON object on one line each.

What a gateway's codec made is such an object already and passes as it is. The log says so (``Origin.reading``), and the
topic says of which gateway and device: never the message. Everything else is wrapped::

    {"id", "node", "client", "user", "topic", "ts", "ingest_ts", "qos", "payload": <the JSON that was published>}
    {"id", "node", "client", "user", "topic", "ts", "ingest_ts", "qos", "payload_b64": "<any other bytes>"}

``user`` is the verified one, and left out where there is none; ``client`` is only a name that a client chose.
``id`` is the spool and the position in the log, so a message that is sent twice has the same id twice. A payload is
copied, not written anew: numbers keep their digits and objects their order.

A run of messages is turned into lines as a whole (``native.lines``). Only rules that look into messages cost more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat

from iot_mqtt import native
from iot_mqtt.ports.log import LogRun
from iot_mqtt.ports.uplink import Mode, Record
from iot_mqtt.uplink.rules import MISSING, Facts, Rules, client_key
from iot_mqtt.values import Origin

#: Headers, and beginnings of lines, kept ready; bounds, not tuning knobs.
MAX_HEADERS = 10_000
MAX_MIDDLES = 10_000

Headers = tuple[tuple[str, bytes], ...]
#: A reading's place in its run, its codec and schema.
Told = tuple[int, str, str]
#: A gateway and its device; two times "" for nobody's.
Source = tuple[str, str]

_QOS = (b"0,", b"1,", b"2,")

#: ``Record._make`` without its check.
_record: Callable[[tuple[object, ...]], Record] = partial(tuple.__new__, Record)


def source_of(run: LogRun) -> Source:
    """Whose readings a run is, if a gateway's codec has made it."""
    if run.origin.reading:
        levels = run.topic.decode().split("/")
        if len(levels) == 3 and levels[0] == "up" and levels[1] == run.publisher:
            return run.publisher, levels[2]
    return "", ""


class RulePlan:
    """``ports.uplink.Plan``: rules, and what they make of messages."""

    __slots__ = (
        "rules",
        "_node",
        "_node_json",
        "_headers",
        "_middles",
        "_spool",
        "_head",
        "_came",
        "_times",
        "_ingested",
        "_plain",
        "_said",
        "_told",
    )

    def __init__(self, rules: Rules, node: str) -> None:
        self.rules = rules
        self._node = node.encode()
        self._node_json = json.dumps(node).encode()
        self._headers: dict[tuple[str, str, str], Headers] = {}
        self._middles: dict[tuple[bytes, str, Origin], tuple[bytes, Source]] = {}
        self._spool, self._head = "", b""
        #: What was made last, and for what: most of it is the same for the next message.
        self._said: tuple[str, str, str] | None = None
        self._told: Headers = ()
        self._begin(0)

    @property
    def filters(self) -> list[str]:
        return self.rules.filters

    def mode(self, topic: bytes, qos: int) -> Mode | None:
        rule = self.rules.of(topic, qos)
        return None if rule is None else rule.mode

    def goes_up(self, run: LogRun) -> bool:
        return self.rules.of(run.topic, run.run.qos) is not None

    def records(self, run: LogRun, spool: str) -> list[Record]:
        published, publisher, first = run.run, run.publisher, run.position
        rule = self.rules.of(run.topic, published.qos)
        if rule is None:
            return []
        came = int(run.arrived * 1000)
        if spool != self._spool:
            self._spool, self._head = spool, f'{{"id":"{spool}-'.encode()
        if came != self._came:
            self._begin(came)
        count = published.count
        middle, (gateway, device) = self._middle(run)
        middle += self._times + _QOS[published.qos]
        values, readings = native.lines(
            published.wire, count, published.prefix, first, self._head, middle, gateway, device
        )
        if not rule.plain:
            return self._chosen(run, values, readings)
        rule.figures.matched += count
        rule.figures.sent += count
        to, key = rule.to, run.topic.decode() if rule.key == "topic" else publisher
        if rule.key == "device":
            key = client_key(publisher)
        if count == 1 and not readings:
            return [_record((to, key, values[0], self._plain, came, first))]
        found: list[Record] = []
        if len(readings) != count:
            positions = range(first, first + count)
            found += map(_record, zip(repeat(to), repeat(key), values, repeat(self._plain), repeat(came), positions))
        if rule.key == "device":
            key = f"{gateway}/{device}"
        for index, codec, schema in readings:
            headers = self._headers_of(gateway, codec, schema)
            record = _record((to, key, values[index], headers, came, first + index))
            if len(readings) != count:
                found[index] = record
            else:
                found.append(record)
        return found

    def _chosen(self, run: LogRun, values: Sequence[bytes], readings: Sequence[Told]) -> list[Record]:
        """Where what a message says decides whether, and where, it goes up."""
        told = {index: (codec, schema) for index, codec, schema in readings}
        topic, publisher, qos = run.topic.decode(), run.publisher, run.run.qos
        found = []
        for index, payload in enumerate(run.run.payloads()):
            value, said = native.decoded(payload), told.get(index)
            reading = value if said is not None and isinstance(value, dict) else None
            facts = Facts(topic, publisher, qos, MISSING if value is native.NOT_JSON else value, reading)
            choice = self.rules.choose(run.topic, facts)
            if choice is not None:
                headers = self._plain if said is None else self._headers_of(publisher, *said)
                found.append(Record(choice.to, choice.key, values[index], headers, self._came, run.position + index))
        return found

    def _begin(self, came: int) -> None:
        """What messages of one millisecond share."""
        self._came, self._times = came, b'%d,"ingest_ts":%d,"qos":' % (came, came)
        self._ingested = ("ingest_ts", b"%d" % came)
        self._plain = (("node", self._node), self._ingested)
        self._said = None

    def _middle(self, run: LogRun) -> tuple[bytes, Source]:
        """What the wrapped messages of a publisher to a topic share, from the end of the id to the first time; and
        whose readings the others are.
        """
        key = run.topic, run.publisher, run.origin
        known = self._middles.get(key)
        if known is None:
            if len(self._middles) >= MAX_MIDDLES:
                self._middles.clear()
            client, topic = json.dumps(run.publisher).encode(), json.dumps(run.topic.decode()).encode()
            user = b',"user":%s' % json.dumps(run.origin.user).encode() if run.origin.user else b""
            middle = b'","node":%s,"client":%s%s,"topic":%s,"ts":' % (self._node_json, client, user, topic)
            known = self._middles[key] = middle, source_of(run)
        return known

    def _headers_of(self, gateway: str, codec: str, schema: str) -> Headers:
        """Of a reading; the next one usually has the same."""
        said = gateway, codec, schema
        if said != self._said:
            fixed = self._headers.get(said)
            if fixed is None:
                if len(self._headers) >= MAX_HEADERS:
                    self._headers.clear()
                named = zip(("gateway", "codec", "schema"), said, strict=True)
                fixed = (("node", self._node), *((name, value.encode()) for name, value in named if value))
                self._headers[said] = fixed
            self._said, self._told = said, (*fixed, self._ingested)
        return self._told
