"""``events.webhooks``: the entries of a list of mappings, checked and as a node uses them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import urlsplit

from iot_mqtt.ports.events import KINDS
from iot_mqtt.sdk.config import BadConfig, config_from

#: Each has a queue of its own.
MOST: Final = 16
_NEAR: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class WebhookEntry:
    """One address that is told of events."""

    url: str
    #: Patterns (* and ?) on kinds of events; none: all of them.
    kinds: tuple[str, ...] = ()
    secret_file: str | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if (
            not self.url.isascii()
            or not self.url.isprintable()
            or " " in self.url
            or not parts.hostname
            or parts.port == 0
        ):
            raise ValueError("url: must be an address such as https://hooks.plant.example/broker")
        if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in _NEAR):
            raise ValueError("url: must begin with https://, or be http:// on this machine: names of clients are told")
        if parts.username is not None or parts.password is not None:
            raise ValueError("url: must not have a user and a password; secret_file names a file with a secret")
        for pattern in self.kinds:
            if not any(fnmatchcase(kind, pattern) for kind in KINDS):
                raise ValueError(f"kinds: no event is of the kind {pattern!r}; there are {', '.join(KINDS)}")

    @property
    def wanted(self) -> frozenset[str]:
        """The kinds of events that are told."""
        return frozenset(kind for kind in KINDS if any(fnmatchcase(kind, pattern) for pattern in self.kinds or "*"))

    @property
    def host(self) -> str:
        """For people: the rest of an address may be a secret."""
        return str(urlsplit(self.url).hostname)


def webhook_of(entry: Mapping[str, object]) -> WebhookEntry:
    """One entry. ValueError says what is wrong with it."""
    kinds = entry.get("kinds")
    try:
        return config_from(WebhookEntry, {**entry, "kinds": [kinds]} if isinstance(kinds, str) else entry)
    except BadConfig as error:
        raise ValueError("; ".join(error.lines)) from None


def webhook_problems(entries: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """What keeps these from being used."""
    if len(entries) > MOST:
        yield f"has {len(entries)} entries; {MOST} are the most"
    for number, entry in enumerate(entries, start=1):
        try:
            secret_of(webhook_of(entry))
        except ValueError as wrong:
            yield f"entry {number}: {wrong}"


def secret_of(entry: WebhookEntry) -> bytes | None:
    """What its requests are signed with. A line end behind it is none of it. ValueError: it cannot be had."""
    # Late: who asks for the configuration does not wait for the libraries of logins.
    from iot_mqtt.auth.files import FileError, read_text

    if entry.secret_file is None:
        return None
    try:
        secret = read_text(entry.secret_file).rstrip("\r\n")
    except FileError as error:
        raise ValueError(f"secret_file: {error}") from None
    if not secret:
        raise ValueError(f"secret_file: {entry.secret_file}: is empty")
    return secret.encode()
