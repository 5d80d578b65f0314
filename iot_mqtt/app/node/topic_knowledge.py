"""What this node knows of a topic, gathered from all who know something: what ``admin.why.topics`` explains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import starmap

from iot_mqtt.admin.why.facts import Denied, Facts, Publisher
from iot_mqtt.admin.why.near import Near, nearest
from iot_mqtt.admin.why.topics import Retained, Subscriber, TopicFacts
from iot_mqtt.auth.explaining import Question
from iot_mqtt.auth.service import Access
from iot_mqtt.broker.publishing.budget import Pause
from iot_mqtt.broker.publishing.steps import Steps
from iot_mqtt.broker.recorder import Recorder, is_over
from iot_mqtt.broker.views.view import View
from iot_mqtt.codec.describing import described
from iot_mqtt.devices.link.repetitions import REPEATED
from iot_mqtt.ports.access import Principal
from iot_mqtt.ports.addresses import host_of
from iot_mqtt.ports.clock import Clock
from iot_mqtt.topics import matches, parse_replay, parse_shared
from iot_mqtt.uplink.desk import RuleInfo, UplinkDesk
from iot_mqtt.values import Subscription

#: Subscribers and publishers that are named, and filters that are held against a topic that nobody has subscribed to.
_SUBSCRIBERS, _PUBLISHERS, _FILTERS = 50, 20, 1_000
#: Connections whose last packets are looked through for the topic, a few microseconds each: so many of those that are
#: open, and as many that ended last.
_LOOKED_THROUGH = 2_500
#: Bytes of a topic that the flight recorder keeps.
_KEPT = 64


class TopicKnowledge:
    """Of one node. ``desk`` is None without an uplink."""

    def __init__(
        self, view: View, recorder: Recorder, steps: Steps, desk: UplinkDesk | None, access: Access, clock: Clock
    ) -> None:
        self._view = view
        self._recorder = recorder
        self._steps = steps
        self._desk = desk
        self._access = access
        self._clock = clock

    async def facts(self, topic: str) -> TopicFacts:
        """Of a topic."""
        view = self._view
        info = view.info()
        place = Facts(
            info.node_id,
            self._clock.wall(),
            topic,
            broker=info,
            alarms=view.alarms,
            log=view.log.info(),
            uplink=view.uplink(),
            cluster=view.cluster.info(),
        )
        every = await view.subscribing.routes(topic, None, _FILTERS)
        found = await view.subscriptions(None, None, _SUBSCRIBERS, topic)
        kept = view.retained(topic, None, 1)
        return TopicFacts(
            place,
            topic,
            subscribers=tuple(self._subscriber(view, one.client_id, one.subscription, topic) for one in found),
            count=sum(one.sessions for one in every),
            publishers=tuple(publishers(view, self._recorder, topic)),
            denied=tuple(denied(view, topic)),
            retained=Retained(len(kept[0].payload), kept[0].qos, kept[0].publisher) if kept else None,
            recorded=self._recorded(topic.encode()),
            rules=tuple(rules_of(self._desk, topic)),
            near=None if every else await self._near(view, topic),
        )

    def _subscriber(self, view: View, client_id: str, subscription: Subscription, topic: str) -> Subscriber:
        session, client = view.session(client_id), view.client(client_id)
        user = session.owner or None if session is not None else None
        who = Principal(client_id, user, user is None, address=host_of(client.peer) if client is not None else "")
        answer = self._access.may(who, Question("receive", topic))
        shared = parse_shared(subscription.filter)
        return Subscriber(
            client_id,
            subscription.filter,
            subscription.qos,
            None if shared is None else shared[0],
            subscription.no_local,
            client is not None,
            session is not None and session.durable,
            answer.allowed,
            answer.rule,
        )

    def _recorded(self, topic: bytes) -> tuple[int, ...]:
        steps = self._steps.of(topic)
        return tuple(qos for qos in (0, 1, 2) if any(step.records(topic, qos) for step in steps))

    async def _near(self, view: View, topic: str) -> Near | None:
        filters = await view.subscribing.routes(None, None, _FILTERS)
        return nearest((one.filter for one in filters), topic)


def rules_of(desk: UplinkDesk | None, topic: str) -> Iterator[RuleInfo]:
    """Rules that may take it, up to the first one that takes whatever comes."""
    for rule in () if desk is None else desk.rules().items:
        if matches(rule.filter, topic):
            yield rule
            if not (rule.qos or rule.when or rule.gateway or rule.device or rule.codec):
                return


def denied(view: View, topic: str) -> Iterator[Denied]:
    """Whose rights did not cover the topic, and gateways whose readings are dropped there; the last ones first."""
    return starmap(Denied, view.counters.recent.about(_about(topic), _PUBLISHERS))


def _about(topic: str) -> Callable[[str, str], bool]:
    """Whether a trouble keeps messages of the topic from coming in, or from somebody."""

    def about(code: str, asked: str) -> bool:
        if code == REPEATED:
            return asked == topic
        if not code.startswith("denied_") or not asked:
            return False
        plain = parse_shared(asked) or parse_replay(asked)
        return matches(asked if plain is None else plain[1], topic)

    return about


def publishers(view: View, recorder: Recorder, topic: str) -> Iterator[Publisher]:
    """Connections in whose last packets the topic is, the last ones first."""
    name = topic.encode()
    begun, cut = name[:_KEPT], "…" if len(name) > _KEPT else ""
    text = f"PUBLISH {repr(begun.decode('utf-8', 'replace'))[1:-1]}{cut}, QoS"
    recorded = [*recorder]
    looked = recorded[:_LOOKED_THROUGH] + recorded[_LOOKED_THROUGH:][-_LOOKED_THROUGH:]
    found = [(at, one) for one in looked if begun in (image := one.image()) and (at := _last(image, text)) is not None]
    for at, one in sorted(found, key=lambda pair: -pair[0])[:_PUBLISHERS]:
        connected = not is_over(one)
        yield Publisher(one.client_id, one.peer, at, connected, _limited(view, one.client_id) if connected else None)


def _limited(view: View, client_id: str) -> str | None:
    """The rate that a client is held off by now, as ``Publisher`` has it."""
    client = view.client(client_id)
    if client is None or client.paused != Pause.RATE:
        return None
    return next((one.detail for one in view.counters.recent.of(client_id) if one.code == "limited"), "")


def subscribed_at(recorder: Recorder, client_id: str, filters: Iterable[str], created_at: float) -> float:
    """When a session, which has been there since then, first asked for one of these filters."""
    words = [f"{filter!r} QoS" for filter in filters]
    times = (
        one.at
        for recording in recorder.of(client_id)
        for one in described(recording.image)
        if one.direction == "in" and "SUBSCRIBE" in one.text and any(word in one.text for word in words)
    )
    return min((at for at in times if at >= created_at), default=created_at)


def _last(image: bytes, text: str) -> float | None:
    times = [one.at for one in described(image) if one.direction == "in" and text in one.text]
    return max(times, default=None)
