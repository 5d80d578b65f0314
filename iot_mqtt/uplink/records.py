"""Messages of the log as the platform gets them: one JSON object on one line each.

What a gateway's codec made is such an object already: nobody looks into it, and it gets one field more at its end. Who
made it is known from the log (``Origin.codec``), and of which gateway and device from its publisher and topic, never
from the message. Everything else is wrapped::

    {<what the codec made>, "record"}
    {"id", "node", "client", "user", "topic", "ts", "ingest_ts", "qos", "payload": <the JSON that was published>}
    {"id", "node", "client", "user", "topic", "ts", "ingest_ts", "qos", "payload_b64": "<any other bytes>"}

``user`` is the verified one, and left out where there is none; ``client`` is only a name that a client chose.
``record``, and the ``id`` of what was wrapped, is the spool and the position in the log: the same however often a
record is sent, and of no other record. The ``id`` of a reading is the codec's, and several readings may share it. A
payload is copied, not written anew: numbers keep their digits and objects their order.

A run of messages is turned into lines as a whole (``native.lines``), and goes one way as a whole; only rules with
conditions look into messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import NamedTuple

from iot_mqtt import native
from iot_mqtt.ports.log import LogRun
from iot_mqtt.ports.uplink import Mode, Record
from iot_mqtt.uplink.rules import MISSING, Facts, Rule, Rules, client_key
from iot_mqtt.values import UNKNOWN_CODEC, CodecId, Origin

#: Senders, kept ready; a bound, not a tuning knob.
MAX_SENDERS = 10_000

Headers = tuple[tuple[str, bytes], ...]
#: What is known of a gateway's reading beside its bytes: gateway, device, codec and schema.
Metadata = Mapping[str, str]

_QOS = (b"0,", b"1,", b"2,")

#: ``Record._make`` without its check.
_record: Callable[[tuple[object, ...]], Record] = partial(tuple.__new__, Record)


class _Sender(NamedTuple):
    """What the messages of a publisher to a topic share."""

    #: None: they are no readings.
    metadata: Metadata | None
    #: Of a wrapped message, from the end of the id to the first time.
    middle: bytes
    #: Where the key is the device.
    key: str
    #: But for the time.
    headers: Headers


def metadata_of(run: LogRun) -> Metadata | None:
    """Of a run that a gateway's codec has made."""
    codec = run.origin.codec
    if codec is None:
        return None
    levels = run.topic.decode().split("/")
    if len(levels) != 3 or levels[0] != "up" or levels[1] != run.publisher:
        return None
    return {"gateway": run.publisher, "device": levels[2], "codec": codec.name, "schema": codec.schema}


def legacy_messages(run: LogRun) -> Iterator[LogRun]:
    """The messages of a run whose codec is ``UNKNOWN_CODEC``, one by one: each says itself which codec that was."""
    metadata, user = metadata_of(run), run.origin.user
    for place, payload in enumerate(run.run.payloads(), start=run.position):
        value = native.decoded(payload)
        one_line = b"\n" not in payload and b"\r" not in payload
        codec = _codec_of(value, metadata) if metadata is not None and one_line else None
        one = run.behind(place).before(place + 1)
        yield LogRun(one.reference, one.run, one.topic, one.publisher, one.arrived, Origin(user, codec))


def _codec_of(value: object, metadata: Metadata) -> CodecId | None:
    """None: not a reading of this device. A codec that wrote its values itself could name another one in them."""
    if not isinstance(value, dict) or not value.get("codec"):
        return None
    if (value.get("gateway"), value.get("device")) != (metadata["gateway"], metadata["device"]):
        return None
    return CodecId(str(value["codec"]), str(value.get("schema", "")))


class RulePlan:
    """``ports.uplink.Plan``: rules, and what they make of messages."""

    __slots__ = (
        "rules",
        "_node",
        "_node_json",
        "_senders",
        "_spool",
        "_head",
        "_tail",
        "_came",
        "_times",
        "_ingested",
        "_said",
        "_headers",
    )

    def __init__(self, rules: Rules, node: str) -> None:
        self.rules = rules
        self._node = node.encode()
        self._node_json = json.dumps(node).encode()
        self._senders: dict[tuple[bytes, str, Origin], _Sender] = {}
        self._spool, self._head, self._tail = "", b"", b""
        #: The headers that were made last, and from what: most of the time the next message has the same.
        self._said: Headers | None = None
        self._headers: Headers = ()
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
        published, topic = run.run, run.topic
        rule = self.rules.of(topic, published.qos)
        if rule is None:
            return []
        if run.origin.codec == UNKNOWN_CODEC:
            return [record for one in legacy_messages(run) for record in self.records(one, spool)]
        came = int(run.arrived * 1000)
        if spool != self._spool:
            self._spool, self._head = spool, f'{{"id":"{spool}-'.encode()
            self._tail = f',"record":"{spool}-'.encode()
        if came != self._came:
            self._begin(came)
        sender = self._senders.get((topic, run.publisher, run.origin)) or self._sender(run)
        lines = self._told(run) if sender.metadata is not None else self._wrapped(run, sender)
        headers = self._headers_of(sender)
        if rule.plain:
            to, key = rule.to, self._plain_key(rule, run, sender)
            rule.figures.matched += published.count
            rule.figures.sent += published.count
        elif self.rules.asks(topic, published.qos):
            return self._chosen(run, lines, headers, sender)
        else:
            facts = Facts(topic.decode(), run.publisher, published.qos, MISSING, sender.metadata)
            choice = self.rules.choose(topic, facts, published.count)
            if choice is None:
                return []
            _, to, key = choice
        first = run.position
        if published.count == 1:
            return [_record((to, key, lines[0], headers, came, first))]
        positions = range(first, first + published.count)
        return list(map(_record, zip(repeat(to), repeat(key), lines, repeat(headers), repeat(came), positions)))

    def _plain_key(self, rule: Rule, run: LogRun, sender: _Sender) -> str:
        if rule.key == "device":
            return sender.key
        return run.topic.decode() if rule.key == "topic" else run.publisher

    def _told(self, run: LogRun) -> list[bytes]:
        """Readings, each with the id of its record before its last brace."""
        tail, payloads = self._tail, run.run.payloads()
        return [b'%b%b%d"}' % (one.rstrip()[:-1], tail, place) for place, one in enumerate(payloads, run.position)]

    def _wrapped(self, run: LogRun, sender: _Sender) -> list[bytes]:
        published = run.run
        middle = sender.middle + self._times + _QOS[published.qos]
        return native.lines(published.wire, published.count, published.prefix, run.position, self._head, middle)

    def _chosen(self, run: LogRun, lines: Sequence[bytes], headers: Headers, sender: _Sender) -> list[Record]:
        """Where what a message says decides whether, and where, it goes up."""
        topic, found = run.topic.decode(), []
        for index, payload in enumerate(run.run.payloads()):
            value = native.decoded(payload)
            reading = value if sender.metadata is not None and isinstance(value, dict) else sender.metadata
            facts = Facts(topic, run.publisher, run.run.qos, MISSING if value is native.NOT_JSON else value, reading)
            choice = self.rules.choose(run.topic, facts)
            if choice is not None:
                record = Record(choice.to, choice.key, lines[index], headers, self._came, run.position + index)
                found.append(record)
        return found

    def _begin(self, came: int) -> None:
        """What messages of one millisecond share."""
        self._came, self._times = came, b'%d,"ingest_ts":%d,"qos":' % (came, came)
        self._ingested = ("ingest_ts", b"%d" % came)
        self._said = None

    def _headers_of(self, sender: _Sender) -> Headers:
        if sender.headers is not self._said:
            self._said, self._headers = sender.headers, (*sender.headers, self._ingested)
        return self._headers

    def _sender(self, run: LogRun) -> _Sender:
        """One that is not known yet."""
        if len(self._senders) >= MAX_SENDERS:
            self._senders.clear()
        metadata, publisher, origin = metadata_of(run), run.publisher, run.origin
        node: Headers = (("node", self._node),)
        if metadata is not None:
            more = (
                (name, metadata[name].encode("utf-8", "replace"))
                for name in ("gateway", "codec", "schema")
                if metadata[name]
            )
            made = _Sender(metadata, b"", f"{publisher}/{metadata['device']}", (*node, *more))
        else:
            client, topic = json.dumps(publisher).encode(), json.dumps(run.topic.decode()).encode()
            user = b',"user":%s' % json.dumps(origin.user).encode() if origin.user else b""
            middle = b'","node":%s,"client":%s%s,"topic":%s,"ts":' % (self._node_json, client, user, topic)
            made = _Sender(None, middle, client_key(publisher), node)
        self._senders[run.topic, publisher, origin] = made
        return made
