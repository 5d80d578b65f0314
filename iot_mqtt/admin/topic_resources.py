"""``/api/v1/topics``: the busiest ones, the tree of those that are known level by level, the last value of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.errors import bad_request, bad_request_if
from iot_mqtt.admin.json_text import fields_of
from iot_mqtt.admin.routes import Resource, combined
from iot_mqtt.admin.schemas import Json, Schemas, items_of, maybe, object_of, schema_of
from iot_mqtt.admin.shapes import of_bytes
from iot_mqtt.devices.asked import NotHis
from iot_mqtt.errors import MqttError
from iot_mqtt.topics import validate_topic

#: What the busiest are sorted by.
BY = ("messages", "bytes")


@dataclass(slots=True)
class Branch:
    """What begins with ``topic``: that topic (``leaf``), those below it (``deeper``), or both."""

    topic: str
    #: Known ones, that one included; retained ones that nobody has published to lately are not counted.
    topics: int = 0
    leaf: bool = False
    deeper: bool = False
    retained: bool = False
    messages_per_second: float = 0.0
    bytes_per_second: float = 0.0


@dataclass(frozen=True, slots=True)
class BusyTopic:
    """What clients and gateways publish to it."""

    topic: str
    messages_per_second: float
    bytes_per_second: float
    #: At most so many messages more.
    missed_per_second: float
    #: Some of those who publish it.
    publishers: tuple[str, ...]
    #: Sessions and shared groups of the node that it comes to.
    receivers: int
    #: Whether other nodes get it, too.
    elsewhere: bool


@dataclass(frozen=True, slots=True)
class LastValue:
    """``at``: when it came, if that is known. ``payload`` may be cut."""

    source: str
    at: float | None
    qos: int
    publisher: str
    size: int
    payload: bytes


class Topics(Protocol):
    """Whoever asks has it counted for a minute."""

    def seconds(self) -> float: ...

    def busiest(self, by: str, limit: int) -> list[BusyTopic]: ...

    def below(self, prefix: str, after: str | None, limit: int) -> list[Branch]: ...

    def containing(self, words: Iterable[str], after: str | None, limit: int) -> list[Branch]: ...

    def last(self, topic: str) -> LastValue | None: ...


def top_together(answers: Sequence[Mapping[str, Any]], _: Mapping[str, str]) -> dict[str, Any]:
    """The busiest of all nodes: what several have is added up."""
    by, limit = answers[0]["by"], answers[0]["limit"]
    found: dict[str, dict[str, Any]] = {}
    for answer in answers:
        for one in answer["items"]:
            known = found.setdefault(one["topic"], {**one, **dict.fromkeys(_SUMS, 0), "publishers": []})
            for name in _SUMS:
                known[name] += one[name]
            known["publishers"] = list(dict.fromkeys([*known["publishers"], *one["publishers"]]))
            known["elsewhere"] |= one["elsewhere"]
    items = sorted(found.values(), key=lambda one: (-one[f"{by}_per_second"], one["topic"]))
    return {**answers[0], "seconds": min(one["seconds"] for one in answers), "items": items[:limit]}


_SUMS = ("messages_per_second", "bytes_per_second", "missed_per_second", "receivers")


def level_together(answers: Sequence[Mapping[str, Any]], _: Mapping[str, str]) -> dict[str, Any]:
    """A level of all nodes. A page ends where one of those does that have more."""
    limit = answers[0]["limit"]
    found: dict[bytes, dict[str, Any]] = {}
    ends = [one["after"].encode() for one in answers if one["after"] is not None]
    for answer in answers:
        for one in answer["items"]:
            known = found.setdefault(one["topic"].encode(), {**one, **dict.fromkeys(_RATES, 0)})
            for name in _RATES:
                known[name] += one[name]
            # What two nodes know of may be the same.
            known["topics"] = max(known["topics"], one["topics"])
            for name in ("leaf", "deeper", "retained"):
                known[name] |= one[name]
    names = sorted(name for name in found if not ends or name <= min(ends))
    more = bool(ends) or len(names) > limit
    items = [found[name] for name in names[:limit]]
    seconds = min(one["seconds"] for one in answers)
    return {**answers[0], "seconds": seconds, "items": items, "after": items[-1]["topic"] if more and items else None}


_RATES = ("messages_per_second", "bytes_per_second")


def newest(answers: Sequence[Mapping[str, Any]], _: Mapping[str, str]) -> dict[str, Any]:
    """Of what nodes have seen the last; else what is retained, which all have."""
    return dict(max(answers, key=lambda one: (one["source"] is not None, one["at"] or 0.0)))


class TopicResources(Resource):
    """Topics, payloads and names of clients are in it, so it is for operators."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    @combined(
        "topics/top",
        "The busiest topics; counted while somebody asks, so the first answer has little in it yet.",
        "BusyTopics",
        top_together,
        query=("by", "limit"),
        role=Role.OPERATOR,
    )
    def _top(self, call: Call) -> Json:
        _for_all(call)
        by, limit = call.query.get("by", BY[0]), call.limit
        if by not in BY:
            raise bad_request(f"by must be one of {', '.join(BY)}")
        items = [fields_of(one) for one in self._topics.busiest(by, limit)]
        return {"by": by, "limit": limit, "seconds": self._topics.seconds(), "items": items}

    @combined(
        "topics",
        "Topics that are known, one level behind a prefix, or all that have some words in them.",
        "TopicLevel",
        level_together,
        query=("prefix", "contains", "after", "limit"),
        role=Role.OPERATOR,
    )
    def _level(self, call: Call) -> Json:
        _for_all(call)
        prefix, words, limit = call.query.get("prefix", ""), call.query.get("contains", "").split(), call.limit
        if words and prefix:
            raise bad_request("prefix and contains do not go together")
        if prefix:
            if not prefix.endswith("/"):
                raise bad_request("prefix must end with /")
            with bad_request_if(MqttError, about="prefix: "):
                validate_topic(prefix)
        if words:
            found = self._topics.containing(words, call.after, limit + 1)
        else:
            found = self._topics.below(prefix, call.after, limit + 1)
        after = found[limit - 1].topic if len(found) > limit else None
        items = [fields_of(one) for one in found[:limit]]
        return {"limit": limit, "seconds": self._topics.seconds(), "items": items, "after": after}

    @combined(
        "topics/{topic}/last",
        "The last value that came to a topic since somebody asks for it (4096 bytes of it), or the retained one.",
        "TopicValue",
        newest,
        role=Role.OPERATOR,
    )
    def _last(self, call: Call) -> Json:
        _for_all(call)
        topic = call.path["topic"]
        with bad_request_if(MqttError, about="topic: "):
            validate_topic(topic)
        found = self._topics.last(topic)
        if found is None:
            return {"topic": topic, "source": None, "at": None, "qos": 0, "publisher": "", "size": 0}
        told = {name: getattr(found, name) for name in ("source", "at", "qos", "publisher", "size")}
        return {"topic": topic, **told, **of_bytes("payload", found.payload)}

    def schemas(self) -> Schemas:
        text: Json = {"type": "string"}
        whole: Json = {"limit": {"type": "integer"}, "seconds": {"type": "number"}}
        value = {"topic": text, "source": maybe("string"), "at": maybe("number"), "qos": {"type": "integer"}}
        known = object_of({**value, "publisher": text, "size": {"type": "integer"}})
        # Not there where nothing is known; null where it is no text.
        known["properties"] |= {"payload": maybe("string"), "payload_base64": text}
        return {
            "BusyTopics": object_of({"by": text, **whole, "items": items_of(schema_of(BusyTopic))}),
            "TopicLevel": object_of({**whole, "items": items_of(schema_of(Branch)), "after": maybe("string")}),
            "TopicValue": known,
        }


def _for_all(call: Call) -> None:
    """Who may act for one user only does not see the topics of the others."""
    if call.user is not None:
        raise NotHis(f"{call.user} may not look at the topics of all")
