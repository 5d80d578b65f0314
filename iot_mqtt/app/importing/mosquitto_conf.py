"""``mosquitto.conf`` in our words: keys with their values, files of users and rules, and a note for each line that
cannot be taken over.

::

    listener 8883           listeners: {mqtts: {host: 0.0.0.0, port: 8883, tls: {cert: …}, auth_chain: [file]}}
    certfile /etc/…   ─▶    auth: {users_file: users, acl_file: acl, allow_anonymous: false}
    password_file /etc/…    notes: mosquitto.conf:9: bridge_…: nothing here is like it

Nobody is let in whom mosquitto refuses: a listener with an option that narrows and cannot be said is left out
(``mosquitto_listeners``). An option that only bounds what is used up is told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from iot_mqtt.app.importing.imported import Imported, Refused
from iot_mqtt.app.importing.mosquitto_listeners import (
    OF_STRANGERS,
    OF_USERS,
    PASSWORDS,
    Access,
    Doors,
    Listener,
)
from iot_mqtt.auth.files import FileError, read_text
from iot_mqtt.auth.mosquitto_acl import Acl, join_acls, no_acl, read_acl
from iot_mqtt.auth.users import parse_users

_SPANS = {"h": 3600, "d": 86_400, "w": 7 * 86_400, "m": 30 * 86_400, "y": 365 * 86_400}
#: What says how mosquitto runs, or what is so here in any case.
_QUIET = frozenset(
    {"set_tcp_nodelay", "connection_messages", "log_timestamp", "log_timestamp_format", "autosave_interval", "user"}
    | {"autosave_on_changes", "pid_file", "persistence_file", "websockets_log_level", "auth_plugin_deny_special_chars"}
    | {"auto_id_prefix", "allow_duplicate_messages"}
)
#: Why others are not taken over; ``nothing here is like it`` for the rest.
_WHY = {
    "persistence_location": "what lies there is taken over by iot-mqtt import sessions, and by import retained",
    "persistence": "whether anything is kept is said by grid.kind and durable_sessions.enable",
    "message_size_limit": "a limit of payloads; mqtt.max_packet_size bounds whole packets",
    "memory_limit": "whoever starts the node bounds its memory",
    "max_inflight_bytes": "mqtt.max_inflight counts messages, whatever their size",
    "max_keepalive": "mqtt.server_keep_alive is one value for all MQTT 5 clients, also for those whose own is lower",
    "queue_qos0_messages": "QoS 0 is never kept; publish and subscribe with QoS 1 where messages are to wait",
    "upgrade_outgoing_qos": "a message is delivered at the lower of both QoS",
    "check_retain_source": "rights are asked again when a retained message is delivered",
    "psk_file": "only a listener with psk_hint has these keys",
    "capath": "write the authorities into one file, for tls.ca",
    "log_type": "log.level is one level: errors, warnings, what happens, everything",
}
_PLUGINS = frozenset({"plugin", "auth_plugin", "global_plugin", "plugin_load", "plugin_use"})
_OF_PLUGINS = ("plugin_opt_", "auth_opt_")
_BRIDGE = frozenset({"connection", "address", "addresses", "topic", "cleansession", "clientid", "keepalive_interval"})
#: What would stand for more than itself in a pattern of client ids.
_SIGNS = frozenset("*?%")


class _Line(NamedTuple):
    file: str
    number: int
    #: Of the file, where relative paths begin for us.
    key: str
    value: str

    @property
    def where(self) -> str:
        return f"{self.file}:{self.number}"


def import_conf(path: str) -> Imported:
    """Raises ``Refused``."""
    reading = _Reading()
    for line in _lines(path):
        reading.take(line)
    return reading.result()


class _Reading:
    def __init__(self) -> None:
        self._found = Imported()
        #: The one that is there without a line `listener`: on this machine only.
        self._first = Listener("", 1883, "127.0.0.1")
        self._listeners: list[Listener] = []
        #: The listener that lines of a file speak of; each file begins with the first one.
        self._current: dict[str, Listener] = {}
        self._per_listener = False
        #: Of all listeners, if it is not per listener.
        self._access = Access()
        #: Why no listener can be opened as mosquitto opens it.
        self._barred: list[str] = []
        self._prefix: str | None = None
        self._in_bridge = False
        #: What is one for all listeners, though it is written below one.
        self._of_all: dict[str, _Line] = {}

    def take(self, line: _Line) -> None:
        """The next line."""
        bridges = line.key in _BRIDGE or line.key.startswith(("bridge_", "remote_", "local_", "try_"))
        if line.key == "connection":
            self._in_bridge = True
            self._note(
                line, "there are no bridges: the brokers' clients can connect here, or rules of the uplink send on"
            )
        elif line.key == "listener":
            self._in_bridge = False
            self._open(line)
        elif self._in_bridge and bridges:
            return  # told with its connection
        elif line.key in _TAKEN:
            _TAKEN[line.key](self, line)
        elif line.key in _LISTENER_KEYS:
            key, read = _LISTENER_KEYS[line.key]
            self._put(self._listener(line).keys, line, key, read)
        elif line.key in _LEAST:
            self._least(line)
        elif line.key in _KEYS:
            key, read = _KEYS[line.key]
            self._put(self._found.keys, line, key, read)
        elif line.key not in _QUIET and not line.key.startswith(_OF_PLUGINS):
            self._note(line, _WHY.get(line.key, "nothing here is like it"))

    def result(self) -> Imported:
        """All lines were taken."""
        found, doors = self._found, Doors()
        for listener in self._all():
            access = listener.access if self._per_listener else self._access
            if access.anonymous is None:
                access.anonymous = not self._listeners
            listener.barred += self._barred
            why = doors.open(listener, access)
            if why is not None:
                head = f"{listener.where}: " if listener.where else ""
                found.left_out.append(f"{head}listener {listener.port} was left out: {why}")
        found.notes += found.left_out
        if len(doors.opened) > 1:
            for key, line in self._of_all.items():
                self._note(line, f"{key} holds for all listeners: the least counts")
        if doors.opened:
            self._files(doors)
        found.keys["auth.allow_anonymous"] = doors.anonymous
        for listener, links in doors.opened:
            self._name(listener, links)
        for name in ("mqtt", "ws", "gateway"):
            if not any(key.startswith(f"listeners.{name}.") for key in found.keys):
                found.keys[f"listeners.{name}.enabled"] = False
        return found

    # Listeners.

    def _all(self) -> list[Listener]:
        """With the default one, if there is no other, or an option speaks of it."""
        if self._first in self._listeners or (self._listeners and not self._first.where):
            return self._listeners
        return [self._first, *self._listeners]

    def _listener(self, line: _Line) -> Listener:
        listener = self._current.get(line.file, self._first)
        if listener is self._first:
            self._first.where = self._first.where or line.where
        return listener

    def _open(self, line: _Line) -> None:
        port, _, host = line.value.partition(" ")
        listener = Listener(line.where, 0, host.strip() or "0.0.0.0")  # noqa: S104 - as it is there
        self._put_port(listener, line._replace(value=port))
        self._listeners.append(listener)
        self._current[line.file] = listener

    def _port(self, line: _Line) -> None:
        self._placed(line)
        self._put_port(self._first, line)

    def _bind_address(self, line: _Line) -> None:
        self._placed(line)
        self._first.host = line.value

    def _placed(self, line: _Line) -> None:
        """It is not for this machine alone any more."""
        if self._first not in self._listeners:
            self._first.where, self._first.host = line.where, "0.0.0.0"  # noqa: S104 - as it is there
            self._listeners.append(self._first)

    def _put_port(self, listener: Listener, line: _Line) -> None:
        listener.port = int(line.value) if line.value.isdigit() else 0
        if not listener.port:
            listener.barred.append("a socket of this machine is no listener here")

    def _protocol(self, line: _Line) -> None:
        listener = self._listener(line)
        listener.websockets = line.value == "websockets"
        if line.value not in ("mqtt", "websockets"):
            listener.barred.append(f"protocol: {line.value} is not spoken here")

    def _identity(self, line: _Line) -> None:
        listener = self._listener(line)
        listener.identity = _read(line, _flag)
        if listener.identity:
            self._note(line, "a client that names another user name than its certificate's is refused")

    def _subject(self, line: _Line) -> None:
        self._listener(line).subject = _read(line, _flag)

    def _bar(self, line: _Line) -> None:
        bars, why = _BARS[line.key]
        if _read(line, bars):
            self._listener(line).barred.append(f"{line.key}: {why}")

    def _name(self, listener: Listener, links: tuple[str, ...]) -> None:
        """By what it speaks, and by its port if that name is taken."""
        name = ("ws" if listener.websockets else "mqtt") + ("s" if listener.secure else "")
        keys = self._found.keys
        if f"listeners.{name}.port" in keys:
            name = f"{name}-{listener.port}"
            keys[f"listeners.{name}.protocol"] = "websocket" if listener.websockets else "mqtt"
        keys[f"listeners.{name}.host"], keys[f"listeners.{name}.port"] = listener.host, listener.port
        keys[f"listeners.{name}.auth_chain"] = list(links)
        keys.update((f"listeners.{name}.{key}", value) for key, value in listener.keys.items())

    # Who is let in, and what he may.

    def _per_listener_settings(self, line: _Line) -> None:
        self._per_listener = _read(line, _flag)
        if self._per_listener and self._access != Access():
            raise Refused(f"{line.where}: mosquitto does not start: it stands before all options of users and rules")

    def _access_of(self, line: _Line) -> Access:
        return self._current.get(line.file, self._first).access if self._per_listener else self._access

    def _allow_anonymous(self, line: _Line) -> None:
        self._access_of(line).anonymous = _read(line, _flag)

    def _password_file(self, line: _Line) -> None:
        if self._per_listener:
            self._listener(line)  # one more option with which mosquitto opens its default listener
        self._access_of(line).password_file = line.value

    def _acl_file(self, line: _Line) -> None:
        self._access_of(line).acl_file = line.value

    def _plugin(self, line: _Line) -> None:
        why = f"{line.key}: it may refuse what nothing refuses here; see auth.chain for what there is: jwt, http, grid"
        (self._barred if line.key == "global_plugin" else self._access_of(line).barred).append(why)

    def _clientid_prefixes(self, line: _Line) -> None:
        if _SIGNS.intersection(line.value):
            self._barred.append(f"{line.key}: {line.value} has a sign that stands for more than itself here")
        self._prefix = line.value

    # Files.

    def _files(self, doors: Doors) -> None:
        """Users and rules for the listeners that are open."""
        found = self._found
        if (path := doors.files.get(PASSWORDS)) is not None:
            self._users(path)
            found.keys["auth.users_file"] = "users"
        kinds = {kind: doors.files[kind] for kind in (OF_USERS, OF_STRANGERS) if kind in doors.files}
        ruled = self._prefix is not None or any(kinds.values())
        for kind, path in kinds.items():
            if path is None:
                but = ", but of topics that begin with $ only $SYS" if ruled else ""
                found.notes.append(f"there is no {kind}: they may do everything, there and here{but}")
        if ruled:
            self._rules(kinds)
            found.keys["auth.acl_file"] = "acl"

    def _users(self, path: str) -> None:
        kept = []
        for number, one in enumerate(_text(path).splitlines(), 1):
            try:
                parse_users(one, path)
            except FileError as error:
                self._found.notes.append(
                    f"{path}:{number}: {str(error).rpartition(': ')[2]}: this user has to be added"
                )
            else:
                kept.append(one)
        self._found.users = "".join(f"{one}\n" for one in kept)

    def _rules(self, kinds: dict[str, str | None]) -> None:
        """Those of clients that come in nowhere are the others'."""
        paths = list(kinds.values())
        read = {path: _acl(path) for path in paths}
        users, strangers = read[paths[0]], read[paths[-1]]
        made = join_acls(users, strangers)
        self._found.notes += made.notes
        if OF_USERS not in kinds and users.users:
            self._found.notes.append(f"{users.path}: rules of users are nobody's: no listener verifies names")
        self._found.acl = made.text
        if self._prefix is not None:
            # A client without an id would get one that has no prefix.
            self._found.keys["mqtt.allow_empty_client_id"] = False
            self._found.acl = f"[all]\nallow client {self._prefix}*\n\n{made.text}"

    # Values.

    def _least(self, line: _Line) -> None:
        key, read = _LEAST[line.key]
        told: dict[str, Any] = {}
        self._put(told, line, key, read)
        for value in told.values():
            self._found.keys[key] = min(self._found.keys.get(key, value), value)
        if self._per_listener or line.key != "allow_zero_length_clientid":
            self._of_all[key] = line

    def _log(self, line: _Line) -> None:
        kind, _, path = line.value.partition(" ")
        if kind == "file":
            self._found.keys["log.file"] = path.strip()
        elif kind not in ("stderr", "stdout", "none"):
            self._note(line, "the log goes to standard error, or to log.file")

    def _put(self, keys: dict[str, Any], line: _Line, key: str, read: Callable[[str], Any]) -> None:
        try:
            keys[key] = _read(line, read) if read is _flag else read(line.value)
        except ValueError as error:
            self._note(line, f"{line.value!r} is not taken over: {error}")

    def _note(self, line: _Line, text: str) -> None:
        self._found.notes.append(f"{line.where}: {line.key}: {text}")


def _lines(path: str, *, included: bool = False) -> Iterator[_Line]:
    for number, line in enumerate(_text(path).splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, _, value = line.strip().partition(" ")
        if key != "include_dir":
            yield _Line(path, number, key, value.strip())
        elif not included:  # mosquitto passes over it in a file that is included
            folder = Path(value.strip())
            if not folder.is_dir():
                raise Refused(f"{path}:{number}: include_dir: {folder} is no directory")
            for below in sorted(folder.glob("*.conf")):
                yield from _lines(str(below), included=True)


def _text(path: str) -> str:
    try:
        return read_text(path)
    except FileError as error:
        raise Refused(str(error)) from error


def _acl(path: str | None) -> Acl:
    if path is None:
        return no_acl()
    try:
        return read_acl(_text(path), path)
    except FileError as error:
        raise Refused(str(error)) from error


def _read(line: _Line, read: Callable[[str], bool]) -> bool:
    """What a line says that narrows: mosquitto does not start with another value, either."""
    try:
        return read(line.value)
    except ValueError as error:
        raise Refused(f"{line.where}: {line.key}: {error}") from error


def _flag(value: str) -> bool:
    if value not in ("true", "false", "1", "0"):
        raise ValueError("it is neither true nor false")
    return value in ("true", "1")


def _number(value: str) -> int:
    if not re.fullmatch(r"\d{1,10}", value):
        raise ValueError("it is no number")
    return int(value)


def _limit(value: str) -> int:
    number = _number(value)
    if not number:
        raise ValueError("0 is no limit there, and here everything has one; the default stays")
    return number


def _span(value: str) -> int:
    number, unit = value[:-1], value[-1:]
    if unit not in _SPANS:
        raise ValueError("it is no span")
    return _number(number) * _SPANS[unit]


def _tls_version(value: str) -> str:
    if value not in ("tlsv1.2", "tlsv1.3"):
        raise ValueError("1.2 is the lowest version that is spoken")
    return value.removeprefix("tlsv")


def _connections(value: str) -> int:
    if value in ("-1", "0"):
        raise ValueError("no limit is the default: as many as there are descriptors for")
    return _number(value)


def _path(value: str) -> str:
    return str(Path(value).absolute())


_KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "max_inflight_messages": ("mqtt.max_inflight", _limit),
    "max_packet_size": ("mqtt.max_packet_size", _limit),
    "max_queued_bytes": ("mqtt.max_queued_bytes", _limit),
    "max_queued_messages": ("mqtt.max_queued_messages", _limit),
    "persistent_client_expiration": ("mqtt.session_expiry_interval", _span),
    "retain_available": ("mqtt.retain_available", _flag),
    "sys_interval": ("mqtt.sys_interval", _number),
}
#: Of one listener there, of all here.
_LEAST: dict[str, tuple[str, Callable[[str], Any]]] = {
    "allow_zero_length_clientid": ("mqtt.allow_empty_client_id", _flag),
    "max_topic_alias": ("mqtt.topic_alias_maximum", _number),
    "max_topic_alias_broker": ("mqtt.topic_alias_maximum_outbound", _number),
    "max_qos": ("mqtt.max_qos", _number),
}
_LISTENER_KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "certfile": ("tls.cert", _path),
    "keyfile": ("tls.key", _path),
    "cafile": ("tls.ca", _path),
    "crlfile": ("tls.crl", lambda value: [_path(value)]),
    "require_certificate": ("tls.require_client_certificate", _flag),
    "tls_version": ("tls.min_version", _tls_version),
    "ciphers": ("tls.ciphers", str),
    "max_connections": ("max_connections", _connections),
}
#: What leaves a listener out, if its value does, and why.
_BARS: dict[str, tuple[Callable[[str], bool], str]] = {
    "bind_interface": (bool, "a listener has an address here, not an interface"),
    "listener_allow_anonymous": (lambda value: not _flag(value), "write per_listener_settings and allow_anonymous"),
    "mount_point": (bool, "topics have no prefix by listener here; write rules for the users of that listener"),
    "psk_hint": (bool, "there is no TLS with pre-shared keys; give its clients passwords or certificates"),
    "socket_domain": (lambda value: value == "ipv6", "what listens at :: has clients of IPv4, too"),
    "use_username_as_clientid": (_flag, "client ids stay what they are; `allow client %u` refuses all others"),
}
_TAKEN: dict[str, Callable[[_Reading, _Line], None]] = {
    "per_listener_settings": _Reading._per_listener_settings,
    "port": _Reading._port,
    "bind_address": _Reading._bind_address,
    "protocol": _Reading._protocol,
    "use_identity_as_username": _Reading._identity,
    "use_subject_as_username": _Reading._subject,
    "allow_anonymous": _Reading._allow_anonymous,
    "password_file": _Reading._password_file,
    "acl_file": _Reading._acl_file,
    "clientid_prefixes": _Reading._clientid_prefixes,
    "log_dest": _Reading._log,
    **dict.fromkeys(_PLUGINS, _Reading._plugin),
    **dict.fromkeys(_BARS, _Reading._bar),
}
