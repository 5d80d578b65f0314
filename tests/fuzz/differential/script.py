"""Scripts: what two or three clients do, step by step. Data, so that Hypothesis can make and shrink them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hypothesis import strategies as st

WHO: Final = ("ann", "bob", "cid")
TOPICS: Final = ("a", "a/b", "b", "a/b/c")
FILTERS: Final = (*TOPICS, "+", "a/+", "+/b", "#", "a/#")
#: What is wrong on purpose: bytes, behind a connect. ``{t}`` is a topic of the script.
WRONG: Final[dict[str, str]] = {
    "qos 3": "36 [ s'{t}' 0001 p 'x' ]",
    "no topic": "30 [ 0000 p 'x' ]",
    "a wildcard in a topic": "30 [ s'{t}/#' p 'x' ]",
    "packet id 0": "32 [ s'{t}' 0000 p 'x' ]",
    "bad UTF-8": "30 [ 0002 c328 p 'x' ]",
    "U+0000 in a topic": "30 [ 0003 610062 p 'x' ]",
    "no filters": "82 [ 0001 p ]",
    "a bad filter": "82 [ 0001 p s'{t}/#/x' 00 ]",
    "subscription options": "82 [ 0001 p s'{t}' c0 ]",
    "subscribe flags": "80 [ 0001 p s'{t}' 00 ]",
    "no filters to leave": "a2 [ 0001 p ]",
    "a second connect": "10 [ n v 02 003c p s'x' ]",
    "a reserved type": "00 00",
    "auth out of turn": "f0 [ 18 p ]",
    "a packet of a server": "20 [ 00 00 p ]",
    "a body that is cut": "32 [ 0009 61 ]",
    "DUP at QoS 0": "38 [ s'{t}' p 'x' ]",
    "a length that is too long": "c0 80 00",
    "a ping with a body": "c0 01 00",
    "an answer to a subscription": "90 [ 0001 p 00 ]",
    "flags of an acknowledgement": "43 [ 0001 ]",
    "an acknowledgement of nothing": "40 [ 0077 ]",
    "a release of nothing": "62 [ 0077 ]",
    "a wildcard in the response topic": "30 [ s'{t}' 5{ [ 08 s'a/#' ] } 'x' ]",
    "an identifier of a client": "30 [ s'{t}' 5{ [ 0b 01 ] } 'x' ]",
    "a group without a name": "82 [ 0001 p s'$share//a' 00 ]",
    "no local for a group": "82 [ 0001 p s'$share/g/{t}' 04 ]",
    "alias 0": "30 [ s'{t}' 5{ [ 23 0000 ] } 'x' ]",
    "a property that is there twice": "30 [ s'{t}' 5{ [ 02 00000009 02 00000009 ] } 'x' ]",
    "flags of an unsubscription": "a0 [ 0001 p s'{t}' ]",
    "flags of a goodbye": "e1 00",
    "an unknown reason": "40 [ 0001 5{ 42 } ]",
}


@dataclass(frozen=True)
class Will:
    """Of a CONNECT."""

    topic: str
    qos: int
    retain: bool
    delay: int = 0


@dataclass(frozen=True)
class Connect:
    """Connect, or take one's own connection over."""

    who: str
    version: int
    clean: bool
    #: Version 5: seconds that the session outlives the connection.
    expiry: int
    will: Will | None
    #: Whether messages are acknowledged.
    acks: bool


@dataclass(frozen=True)
class Subscribe:
    """One SUBSCRIBE."""

    who: str
    #: (filter, options); a group's name stands before the filter, as in ``g:a/+``.
    requests: tuple[tuple[str, int], ...]
    identifier: int | None


@dataclass(frozen=True)
class Unsubscribe:
    """One UNSUBSCRIBE."""

    who: str
    filters: tuple[str, ...]


@dataclass(frozen=True)
class Publish:
    """One PUBLISH; what it carries says which step it is."""

    who: str
    topic: str
    qos: int
    retain: bool
    empty: bool
    #: Of version 5: "expiry", "alias", "named", "user", "text".
    extra: str


@dataclass(frozen=True)
class Leave:
    """``bye``: DISCONNECT; ``will``: DISCONNECT 0x04; ``drop``: without a word."""

    who: str
    how: str


@dataclass(frozen=True)
class Wrong:
    """One packet of the table above."""

    who: str
    what: str


Step = Connect | Subscribe | Unsubscribe | Publish | Leave | Wrong

_who = st.sampled_from(WHO)
_qos = st.sampled_from((0, 1, 2))
_topic = st.sampled_from(TOPICS)
_plain = st.sampled_from(FILTERS)
_filter = st.one_of(_plain, _plain, _plain, _plain.map("g:{}".format))


@st.composite
def _options(draw: st.DrawFn) -> tuple[str, int]:
    filter, qos = draw(_filter), draw(_qos)
    local = 0 if filter.startswith("g:") else draw(st.sampled_from((0, 0, 0, 4)))
    return filter, qos | local | draw(st.sampled_from((0, 0, 8))) | draw(st.sampled_from((0, 0, 0, 16, 32)))


_connect = st.builds(
    Connect,
    _who,
    st.sampled_from((4, 5, 5)),
    st.booleans(),
    st.sampled_from((0, 100)),
    st.none() | st.builds(Will, _topic, _qos, st.booleans()),
    st.sampled_from((True, True, True, False)),
)
_subscribe = st.builds(
    Subscribe, _who, st.lists(_options(), min_size=1, max_size=3).map(tuple), st.sampled_from((None, None, 1, 7))
)
_unsubscribe = st.builds(Unsubscribe, _who, st.lists(_filter, min_size=1, max_size=2).map(tuple))
_publish = st.builds(
    Publish,
    _who,
    _topic,
    _qos,
    st.sampled_from((False, False, True)),
    st.sampled_from((False, False, False, True)),
    st.sampled_from(("", "", "", "expiry", "alias", "named", "user", "text")),
)
_leave = st.builds(Leave, _who, st.sampled_from(("bye", "will", "drop")))
_wrong = st.builds(Wrong, _who, st.sampled_from(sorted(WRONG)))
_step: st.SearchStrategy[Step] = st.one_of(
    _connect, _subscribe, _subscribe, _publish, _publish, _publish, _unsubscribe, _leave
)

#: Two or three clients, connected at first, and what they do then; now and then something wrong at the end.
scripts: st.SearchStrategy[list[Step]] = st.builds(
    lambda first, steps, last: [*first, *steps, *last],
    st.lists(_connect, min_size=2, max_size=3, unique_by=lambda step: step.who),
    st.lists(_step, min_size=1, max_size=14),
    st.lists(_wrong, max_size=1),
)
