"""Reason codes in words, and what would help."""

from __future__ import annotations

from typing import Final

from iot_mqtt.app.terminal import plain
from iot_mqtt.errors import ReasonCode

_R = ReasonCode
_BACK: Final = "try again later"
#: What the person at the keyboard can do about it.
_HELP: Final = {
    _R.UNSUPPORTED_PROTOCOL_VERSION: "ask for another version with -V 311 or -V 31",
    _R.CLIENT_IDENTIFIER_NOT_VALID: "choose another client id with -i, or leave it out",
    _R.BAD_USER_NAME_OR_PASSWORD: "check -u and the password",
    _R.NOT_AUTHORIZED: "check -u and the password, and what this user may do",
    _R.SERVER_UNAVAILABLE: _BACK,
    _R.SERVER_BUSY: _BACK,
    _R.SERVER_SHUTTING_DOWN: "try another node, or again later",
    _R.BANNED: "the broker's operator can say why",
    _R.SESSION_TAKEN_OVER: "another client came with the same client id; choose one of your own with -i",
    _R.KEEP_ALIVE_TIMEOUT: "a longer keep-alive (-k) helps where the network is slow",
    _R.TOPIC_FILTER_INVALID: "'#' stands only at the end and '+' only for a whole level",
    _R.TOPIC_NAME_INVALID: "topics of messages have no '#' and no '+' in them, and are not empty",
    _R.RECEIVE_MAXIMUM_EXCEEDED: "send fewer at once with --max-inflight",
    _R.TOPIC_ALIAS_INVALID: "choose a smaller --topic-alias",
    _R.PACKET_TOO_LARGE: "the broker takes smaller packets only",
    _R.MESSAGE_RATE_TOO_HIGH: "send more slowly with --rate",
    _R.PAYLOAD_FORMAT_INVALID: "the payload is not the text that --payload-format 1 says it is",
    _R.RETAIN_NOT_SUPPORTED: "leave -r out",
    _R.QOS_NOT_SUPPORTED: "choose a smaller -q",
    _R.USE_ANOTHER_SERVER: "connect to another server",
    _R.SERVER_MOVED: "connect to another server",
    _R.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED: "subscribe without $share/",
    _R.CONNECTION_RATE_EXCEEDED: _BACK,
    _R.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED: "leave --subscription-id out",
    _R.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED: "subscribe without '#' and '+'",
}
#: What a reason means, where the broker does not say more.
_MEANS: Final = {_R.QUOTA_EXCEEDED: "a limit of this user or of the broker is used up"}
#: MQTT 3 has one code for whatever is wrong with a subscription.
_REFUSED_FILTER: Final = "what this user may read, and the filter itself, decide; -V 5 says more"


def name(reason: int) -> str:
    """``not authorized``"""
    try:
        return ReasonCode(reason).name.lower().replace("_", " ")
    except ValueError:
        return "a reason that MQTT does not know"


def sentence(reason: int, said: str | None = None, server: str | None = None) -> str:
    """``not authorized (0x87): the words of the broker; what would help``"""
    text = f"{name(reason)} (0x{reason:02x})"
    if said:
        text += f": {plain(said)}"
    if server:
        text += f" (it names {plain(server)})"
    table = _HELP if said else _HELP | _MEANS
    help = table.get(ReasonCode(reason)) if reason in ReasonCode.__members__.values() else None
    return f"{text}; {help}" if help else text


def refused_filter(reason: int, five: bool, said: str | None = None) -> str:
    """Why a filter was not granted."""
    return sentence(reason, said) if five else f"refused (0x{reason:02x}); {_REFUSED_FILTER}"
