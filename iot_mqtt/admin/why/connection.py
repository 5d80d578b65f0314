"""Why a client is not connected: it is banned, was refused, was cut off, went, or never came."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from iot_mqtt.admin.why.facts import Facts
from iot_mqtt.admin.why.finding import Finding, Weight
from iot_mqtt.auth.chain import NOBODY
from iot_mqtt.broker.facade import AttemptInfo
from iot_mqtt.codec import WrongPort
from iot_mqtt.ports.addresses import host_of, written
from iot_mqtt.ports.bans import Ban
from iot_mqtt.ports.endings import CLIENT_DISCONNECTED, DISCONNECTED_WITH_WILL, end_text

#: How the last connection or the session ended → the code, and what would help.
_ENDS: Final = {
    "session_taken_over": ("taken_over", "give every client its own client id: two that share one take turns"),
    "keep_alive_timeout": ("keep_alive", "look at the network, or at what keeps the client from PINGREQ"),
    "session_expired": ("session_expired", "let the client ask for a longer session expiry (or clean session 0)"),
    "session_purged": ("session_purged", "iot-mqtt ctl audit list"),
    "administrative_action": ("closed_by_operator", "iot-mqtt ctl audit list"),
    "outbox_limit": ("cut_off_slow", "let the client read faster; the bound is listeners.<name>.outbox.limit"),
    "outbox_total": ("cut_off_slow", "let the client read faster; the bound is listeners.<name>.outbox.limit"),
    "bad_frame": ("codec_refused", "iot-mqtt ctl capture"),
    "codec_failed": ("codec_refused", "iot-mqtt ctl plugins list"),
    "codec_unavailable": ("codec_unavailable", "iot-mqtt ctl plugins list"),
    "message_rate_too_high": ("rate_limited", "iot-mqtt ctl limits explain"),
    "packet_too_large": ("sent_too_large", "mqtt.max_packet_size"),
    "unfinished_total": ("sent_too_slowly", "let the client send smaller packets; mqtt.max_unfinished_bytes"),
    "use_another_server": ("sent_away", "iot-mqtt ctl node progress"),
    "server_moved": ("sent_away", "iot-mqtt ctl node progress"),
    "server_shutting_down": ("node_stopped", None),
    "node_restarted": ("node_restarted", "look at the client: it has not come back since"),
    "node_lost": ("node_lost", "look at the client: it has not come back since"),
    "not_authorized": ("right_gone", "iot-mqtt ctl auth may"),
    CLIENT_DISCONNECTED: ("disconnected", None),
    DISCONNECTED_WITH_WILL: ("disconnected", None),
}
#: Ends after which the client is expected to come back by itself.
_LOST: Final = frozenset({"peer_closed", "peer_reset", "connection_lost", "aborted", "closed"})
#: Reasons of a refusal → the code, and what would help.
_REFUSALS: Final = {
    "client_identifier_not_valid": ("client_id_refused", "mqtt.max_client_id_length, mqtt.allow_empty_client_id"),
    "server_shutting_down": ("node_stopped", None),
    "use_another_server": ("node_drained", "iot-mqtt ctl node resume"),
    "server_moved": ("node_drained", "iot-mqtt ctl node resume"),
    "server_busy": ("node_busy", "doors.busy_lag"),
    "server_unavailable": ("node_unavailable", "iot-mqtt ctl cluster status"),
    "bad_authentication_method": ("authentication_method", "auth.scram"),
    "qos_not_supported": ("will_denied", "iot-mqtt ctl auth may"),
    "retain_not_supported": ("will_denied", "iot-mqtt ctl auth may"),
}
#: Reasons why a connection was closed that did not say who it is → the code, and what would help.
_UNNAMED: Final = {
    "tls_failed": ("tls_failed", "look at the certificates: listeners.mqtts.tls and what the client trusts"),
    "unsupported_protocol_version": ("protocol_version", "the client must speak MQTT 3.1, 3.1.1 or 5.0"),
    "client_identifier_not_valid": (
        "client_id_missing",
        "with an empty client id, MQTT 3.1.1 must ask for a clean session; mqtt.allow_empty_client_id",
    ),
    "bad_frame": ("codec_refused", "iot-mqtt ctl capture"),
    "codec_unavailable": ("codec_unavailable", "iot-mqtt ctl plugins list"),
    "codec_failed": ("codec_refused", "iot-mqtt ctl plugins list"),
    "connect_timeout": ("no_connect", "mqtt.connect_timeout"),
}
_BROKEN_OFF: Final = "broken_off"
_WRONG_PORT: Final = "wrong_port"
#: What came to a port → whether the one that it is for has TLS, its protocol, and what would help if there is none.
_RIGHT_PORTS: Final[dict[str, tuple[bool, str, str]]] = {
    WrongPort.TLS: (True, "mqtt", "no listener has TLS: connect without it, or configure listeners.mqtts.tls"),
    WrongPort.HTTP: (False, "websocket", "MQTT over WebSocket needs a listener of its own; the API is at admin.port"),
    WrongPort.PLAIN_MQTT: (False, "mqtt", "let the client use TLS"),
    WrongPort.PLAIN_HTTP: (False, "websocket", "let the client use TLS"),
}
#: Seconds for which connections without a name say something of a client that was refused by its own.
_STRANGE: Final = 60.0
#: Addresses that are named beside that of the last connection.
_PEERS: Final = 3
#: Codes of those.
OF_STRANGERS: Final = frozenset({code for code, _ in _UNNAMED.values()} | {_BROKEN_OFF, _WRONG_PORT})


def findings(facts: Facts) -> Iterator[Finding]:
    """All that has to do with coming in."""
    for ban in facts.bans:
        yield Finding(
            "banned", Weight.STOPS, _ban_text(ban), ban.made_at, facts.node, f"iot-mqtt ctl bans remove {ban.id}"
        )
    yield from _held_off(facts)
    yield from _refusals(facts)
    yield from _ends(facts)
    yield from _asked_by_others(facts)
    yield from _unnamed(facts)


def _ban_text(ban: Ban) -> str:
    said = (("client id", ban.client), ("user", ban.user), ("address", ban.address))
    whom = " and ".join(f"{what} {value!r}" for what, value in said if value is not None)
    reason = f": {ban.reason}" if ban.reason else ""
    return f"banned by {whom}, by {ban.made_by or 'somebody'} ({ban.cause}){reason}"


def _held_off(facts: Facts) -> Iterator[Finding]:
    names = {"device": {facts.asked}, "address": {facts.asked, *facts.hosts}}
    for plugin in facts.plugins:
        for one in plugin.held_off:
            if one.name in names.get(one.kind, ()):
                text = (
                    f"{one.kind} {one.name} is held off by the codec {plugin.name} for {one.seconds:.0f} s more, "
                    f"the {one.times}. time within a day: {one.reason}"
                )
                helps = f"iot-mqtt ctl capture {facts.asked}"
                yield Finding("held_off", Weight.STOPS, text, None, facts.node, helps)
        if plugin.state in ("quarantined", "refused") and _uses(facts, plugin.name):
            text = f"the codec {plugin.name} is {plugin.state}: {plugin.reason or 'it does not say why'}"
            helps = f"iot-mqtt ctl plugins show {plugin.name}; iot-mqtt ctl plugins rollback {plugin.name}"
            yield Finding("codec_quarantined", Weight.STOPS, text, None, facts.node, helps)


def _uses(facts: Facts, codec: str) -> bool:
    """Whether it is a gateway of this codec."""
    if facts.client is not None:
        return facts.client.protocol == codec
    return (
        codec == facts.codec
        or codec in facts.codecs
        or any(codec in one.text for one in (*facts.attempts, *facts.unnamed))
    )


# Refused.


def _refusals(facts: Facts) -> Iterator[Finding]:
    """The last refusal is the cause; one that the client came in after was so."""
    last = next((one for one in facts.attempts if one.kind == "refused"), None)
    if last is None:
        return
    over = facts.connected_at is not None and facts.connected_at >= last.at
    count = sum(one.kind == "refused" and one.reason == last.reason for one in facts.attempts)
    code, said, helps = _refused(facts, last)
    often = f", {count} times of late" if count > 1 else ""
    text = f"refused{often}: {said} ({_from(last)})"
    yield Finding(code, Weight.WAS if over else Weight.STOPS, text, last.at, facts.node, helps)


def _refused(facts: Facts, last: AttemptInfo) -> tuple[str, str, str | None]:
    special = _SPECIAL.get(last.reason)
    if special is not None:
        return special(facts, last)
    code, helps = _REFUSALS.get(last.reason, ("refused", None))
    return code, last.text, helps


_NO_USER_NAME: Final = "no_user_name", "it names no user, and anonymous clients are not let in", "auth.allow_anonymous"


def _bad_password(facts: Facts, last: AttemptInfo) -> tuple[str, str, str | None]:
    name = last.claimed_user
    if name is None:
        return _NO_USER_NAME
    kept = facts.kept(last.listener, name)
    if kept is None:
        return "login_refused", last.text, f"iot-mqtt ctl auth explain --user {name}"
    if not kept.enabled:
        do = "ctl users enable" if kept.file is None else f"passwd --enable {kept.file}"
        return "user_disabled", f"the user {name!r} is disabled", f"iot-mqtt {do} {name}"
    do = f"ctl users {'passwd' if kept.known else 'add'}" if kept.file is None else f"passwd {kept.file}"
    helps = f"iot-mqtt {do} {name}"
    if not kept.known:
        return "unknown_user", f"there is no user {name!r}", helps
    return "wrong_password", f"the password is not that of user {name!r}", helps


def _not_authorized(facts: Facts, last: AttemptInfo) -> tuple[str, str, str | None]:
    may = "iot-mqtt ctl auth may"
    near = (one for one in facts.troubles if abs(one.last - last.at) < 1.0)
    found = {one.code: one for one in near}
    will = found.get("denied_will")
    if will is not None:
        rule = rule_text(facts, "publish", will.topic, will.detail)
        return "will_denied", f"it may not publish its will to {will.topic!r} ({will.detail}){rule}", may
    for code in ("denied_client", "denied_gateway"):
        if code in found:
            rule = rule_text(facts, code.removeprefix("denied_"), facts.asked, "")
            said = f"{_user(last)} may not have the name {facts.asked!r}{rule}"
            return "client_id_not_allowed", said, "iot-mqtt ctl users client-ids, or a rule of auth.acl_file"
    if "denied_session" in found:
        owner = facts.session.owner if facts.session is not None else None
        whose = f"of user {owner!r}" if owner else "of another user"
        said = f"{_user(last)} asked for the session {whose}"
        return "session_of_another_user", said, "give it another client id; auth.session_of_another_user"
    if last.claimed_user is None and last.text == NOBODY.detail:
        return _NO_USER_NAME
    return "not_authorized", last.text, may


def _quota(facts: Facts, last: AttemptInfo) -> tuple[str, str, str | None]:
    explain = f"iot-mqtt ctl limits explain --client {facts.asked}"
    for what in ("connections", "sessions"):
        if last.text.endswith(what):
            return f"too_many_{what}", f"{last.text}, and has as many ({_user(last)})", explain
    return "quota", last.text, explain


def _banned(facts: Facts, last: AttemptInfo) -> tuple[str, str, str | None]:
    if facts.bans:
        return "banned", _ban_text(facts.bans[0]), f"iot-mqtt ctl bans remove {facts.bans[0].id}"
    return "banned", last.text, "iot-mqtt ctl bans list"


_SPECIAL: Final[dict[str, Callable[[Facts, AttemptInfo], tuple[str, str, str | None]]]] = {
    "bad_user_name_or_password": _bad_password,
    "not_authorized": _not_authorized,
    "quota_exceeded": _quota,
    "banned": _banned,
}


# Gone.


def _ends(facts: Facts) -> Iterator[Finding]:
    """How the last connection ended, and the session, if it did."""
    seen: set[str] = set()
    for one in facts.attempts:
        if one.kind not in ("ended", "left") or one.reason in seen:
            continue
        seen.add(one.reason)
        code, helps = _ENDS.get(
            one.reason, ("connection_lost" if one.reason in _LOST else "disconnected_for_error", None)
        )
        weight = _weight_of_end(facts, one)
        if one.text.startswith("banned"):
            code, helps = "banned", "iot-mqtt ctl bans list"
        text = f"{one.text}{_taker(facts, one)} ({_from(one)})"
        yield Finding(code, weight, text, one.at, facts.node, helps)
        if weight is Weight.STOPS and not facts.client:
            # What was before it does not matter any more.
            break
    session = facts.session
    if session is not None and not session.connected and not seen and facts.home is None:
        end = session.last_disconnect
        text = f"not connected: {'nobody knows why' if end is None else end_text(end)}"
        yield Finding("disconnected", Weight.STOPS, text, session.disconnected_at, facts.node)


def _weight_of_end(facts: Facts, end: AttemptInfo) -> Weight:
    if facts.client is None:
        return Weight.STOPS
    # Two that share a client id take it from each other again and again.
    return Weight.DELAYS if end.reason == "session_taken_over" else Weight.WAS


def _taker(facts: Facts, end: AttemptInfo) -> str:
    """Who took a session over, if that one is still here."""
    client = facts.client
    if end.reason != "session_taken_over" or client is None:
        return ""
    user = _named(client.username, client.claimed_user)
    return f": now it is connected from {client.peer} on {client.listener}, {user}"


def _asked_by_others(facts: Facts) -> Iterator[Finding]:
    """Somebody else wanted its name."""
    for one in facts.troubles:
        if one.code == "denied_session" and facts.session is not None:
            text = f"another user asked for its client id {one.count} times, and was refused: {one.detail}"
            helps = "give that one another client id"
            yield Finding("wanted_by_another", Weight.SAYS, text, one.last, facts.node, helps)


# Never named.


def _unnamed(facts: Facts) -> Iterator[Finding]:
    """Connections from its address that failed before it could be known whose they are."""
    alike: dict[tuple[str, str], list[AttemptInfo]] = {}
    since = facts.connected_at or 0.0
    if any(one.kind == "refused" for one in facts.attempts):
        since = max(since, facts.now - _STRANGE)
    for one in facts.unnamed:
        if since < one.at:
            alike.setdefault((one.reason, one.text), []).append(one)
    for one, *before in alike.values():
        code, helps = _UNNAMED.get(one.reason, (_BROKEN_OFF, None))
        if one.text in _RIGHT_PORTS:
            code = code if one.reason in _UNNAMED else _WRONG_PORT
            helps = _right_port(facts, one.text)
        text = f"a connection that did not say who it is was closed: {one.text} (from {one.peer} on {one.listener})"
        others = dict.fromkeys(host_of(it.peer) for it in before if host_of(it.peer) != host_of(one.peer))
        text += f"; and before it from {', '.join(islice(others, _PEERS))}" if others else ""
        yield Finding(code, _weight_of_unnamed(facts, one.peer), text, one.at, facts.node, helps)


def _right_port(facts: Facts, came: str) -> str:
    """What would help, with the ports that there are for what came."""
    tls, protocol, without = _RIGHT_PORTS[came]
    ports = [
        f"{one.port} ({one.name})"
        for one in facts.listeners
        if one.open and one.protocol == protocol and one.tls is tls and one.codec is None
    ]
    if not ports:
        return without
    there = f"connect to port {' or '.join(ports)}"
    return there if tls or protocol != "mqtt" else f"{without}, or {there}"


def _weight_of_unnamed(facts: Facts, peer: str) -> Weight:
    """It is the cause where its address was asked for. Behind the address of a client that is here are others, too."""
    if facts.client is not None:
        return Weight.SAYS
    asked, host = written(facts.asked), written(host_of(peer))
    return Weight.STOPS if facts.asked == peer or (asked and asked == host) else Weight.WAS


# Words.


def rule_text(facts: Facts, action: str, asked: str, detail: str) -> str:
    """By which rule something is not allowed; empty where whoever asks may not see rules."""
    qos = int(detail[4]) if detail.startswith("QoS ") else 0
    answer = facts.rights(action, asked, qos, "retained" in detail)
    if answer is None:
        return ""
    if answer.allowed:
        return "; the rules allow it now"
    if answer.rule is None:
        return f": {answer.detail}"
    place = f" ({answer.source} line {answer.line})" if answer.line else f" ({answer.source})" if answer.source else ""
    return f": rule {answer.rule!r}{place}"


def _named(user: str | None, claimed: str | None) -> str:
    if user is not None:
        return f"user {user!r}"
    return "no user name" if claimed is None else f"unverified user {claimed!r}"


def _user(one: AttemptInfo) -> str:
    return _named(one.username, one.claimed_user)


def _from(one: AttemptInfo) -> str:
    if not one.listener and one.peer:
        # From a recording, which says nothing of users.
        return f"from {one.peer}"
    return f"{_user(one)}, from {one.peer} on {one.listener}" if one.peer else _user(one)
