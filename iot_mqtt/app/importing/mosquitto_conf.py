"""``mosquitto.conf`` in our words: keys with their values, files of users and rules, and a note for each line that
cannot be taken over.

::

    listener 8883           listeners: {mqtts: {host: 0.0.0.0, port: 8883, tls: {cert: …}}}
    certfile /etc/…   ─▶    auth: {users_file: users, acl_file: acl, allow_anonymous: false}
    password_file /etc/…    notes: mosquitto.conf:9: bridge_…: nothing here is like it
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from iot_mqtt.app.importing.imported import Imported, Refused
from iot_mqtt.auth.files import FileError, read_text
from iot_mqtt.auth.mosquitto_acl import import_acl
from iot_mqtt.auth.users import parse_users

#: Files that include others stop here.
_DEEPEST = 8
_SPANS = {"h": 3600, "d": 86_400, "w": 7 * 86_400, "m": 30 * 86_400, "y": 365 * 86_400}
#: What says how mosquitto runs, or what is so here in any case.
_QUIET = frozenset(
    {"set_tcp_nodelay", "connection_messages", "log_timestamp", "log_timestamp_format", "autosave_interval", "user"}
    | {"autosave_on_changes", "memory_limit", "pid_file", "persistence_file", "websockets_log_level", "global_plugin"}
)
#: Why others are not taken over; ``nothing here is like it`` for the rest.
_WHY = {
    "persistence_location": "what lies there is taken over by iot-mqtt import sessions, and by import retained",
    "persistence": "whether anything is kept is said by grid.kind and durable_sessions.enable",
    "message_size_limit": "a limit of payloads; mqtt.max_packet_size bounds whole packets",
    "queue_qos0_messages": "QoS 0 waits for sessions that are kept as QoS 1 does",
    "upgrade_outgoing_qos": "a message is delivered at the lower of both QoS",
    "check_retain_source": "rights are asked again when a retained message is delivered",
    "mount_point": "topics have no prefix by listener; write rules for the users of that listener",
    "per_listener_settings": "users and rules are those of all listeners; auth_chain says which links each asks",
    "use_subject_as_username": "auth.certificate.field is one name of the certificate",
    "capath": "write the authorities into one file, for tls.ca",
    "plugin": "see auth.chain for what there is: jwt, http, grid",
    "auth_plugin": "see auth.chain for what there is: jwt, http, grid",
    "log_type": "log.level is one level: errors, warnings, what happens, everything",
}
_BRIDGE = frozenset({"connection", "address", "addresses", "topic", "cleansession", "clientid", "keepalive_interval"})


class _Line(NamedTuple):
    where: str
    #: Of the file, where relative paths begin for us.
    key: str
    value: str


@dataclass
class _Listener:
    where: str
    port: int
    host: str
    websockets: bool = False
    keys: dict[str, Any] = field(default_factory=dict)


def import_conf(path: str) -> Imported:
    """Raises ``Refused``."""
    reading = _Reading()
    for line in _lines(path, 0):
        reading.take(line)
    return reading.result()


class _Reading:
    def __init__(self) -> None:
        self._found = Imported()
        self._listeners: list[_Listener] = []
        self._first: _Listener | None = None
        self._in_bridge = False
        self._has_acl = False

    def take(self, line: _Line) -> None:
        """The next line."""
        if line.key == "connection":
            self._in_bridge = True
            self._note(
                line, "there are no bridges: the brokers' clients can connect here, or rules of the uplink send on"
            )
        elif line.key == "listener":
            self._in_bridge = False
            self._open(line)
        elif self._in_bridge and (line.key in _BRIDGE or line.key.startswith(("bridge_", "remote_", "local_", "try_"))):
            return  # told with its connection
        elif line.key in _LISTENER_KEYS:
            self._of_listener(line)
        elif line.key in _KEYS:
            key, read = _KEYS[line.key]
            self._put(self._found.keys, line, key, read)
        elif line.key in _FILES:
            _FILES[line.key](self, line)
        elif line.key not in _QUIET:
            self._note(line, _WHY.get(line.key, "nothing here is like it"))

    def result(self) -> Imported:
        """All lines were taken."""
        found = self._found
        for listener in self._listeners or [self._default("")]:
            self._name(listener)
        for name in ("mqtt", "ws", "gateway"):
            if not any(key.startswith(f"listeners.{name}.") for key in found.keys):
                found.keys[f"listeners.{name}.enabled"] = False
        found.keys.setdefault("auth.allow_anonymous", False)
        if not self._has_acl:
            found.notes.append("there is no acl_file: whoever was let in may do everything, there and here")
        return found

    # Listeners.

    def _default(self, where: str) -> _Listener:
        """The one that is there without a line `listener`: on this machine only."""
        if self._first is None:
            self._first = _Listener(where, 1883, "127.0.0.1")
            self._listeners.insert(0, self._first)
        return self._first

    def _open(self, line: _Line) -> None:
        port, _, host = line.value.partition(" ")
        if not port.isdigit() or int(port) == 0:
            self._note(line, "a listener at a socket of this machine is none here")
            self._listeners.append(_Listener(line.where, 0, ""))
            return
        self._listeners.append(_Listener(line.where, int(port), host.strip() or "0.0.0.0"))  # noqa: S104 - as it is there

    def _of_listener(self, line: _Line) -> None:
        listener = self._listeners[-1] if self._listeners else self._default(line.where)
        if line.key == "port":
            listener.port, listener.host = _number(line.value), "0.0.0.0"  # noqa: S104 - as it is there
        elif line.key == "bind_address":
            listener.host = line.value
        elif line.key == "protocol":
            listener.websockets = line.value == "websockets"
        elif line.key == "use_identity_as_username":
            if line.value == "true":
                self._found.keys["auth.certificate_as_user"] = True
                self._note(line, "auth.certificate_as_user holds for all listeners that ask for certificates")
        else:
            key, read = _LISTENER_KEYS[line.key]
            self._put(listener.keys, line, key, read)

    def _name(self, listener: _Listener) -> None:
        """By what it speaks, and by its port if that name is taken."""
        if not listener.port:
            return
        secure = "tls.cert" in listener.keys
        name = ("ws" if listener.websockets else "mqtt") + ("s" if secure else "")
        keys = self._found.keys
        if f"listeners.{name}.port" in keys:
            name = f"{name}-{listener.port}"
        if "-" in name or name not in ("mqtt", "mqtts", "ws", "wss"):
            keys[f"listeners.{name}.protocol"] = "websocket" if listener.websockets else "mqtt"
        keys[f"listeners.{name}.host"], keys[f"listeners.{name}.port"] = listener.host, listener.port
        if not secure and (spare := [key for key in listener.keys if key.startswith("tls.")]):
            self._found.notes.append(f"{listener.where}: {', '.join(spare)}: the listener has no certfile")
            listener.keys = {key: value for key, value in listener.keys.items() if key not in spare}
        keys.update((f"listeners.{name}.{key}", value) for key, value in listener.keys.items())

    # Files.

    def _users(self, line: _Line) -> None:
        if (text := self._text(line)) is None:
            return
        kept = []
        for number, one in enumerate(text.splitlines(), 1):
            try:
                parse_users(one, line.value)
            except FileError as error:
                self._found.notes.append(
                    f"{line.value}:{number}: {str(error).rpartition(': ')[2]}: this user has to be added"
                )
            else:
                kept.append(one)
        if self._found.users is not None:
            self._note(line, "there is one file of users: these were added")
        self._found.users = (self._found.users or "") + "".join(f"{one}\n" for one in kept)
        self._found.keys["auth.users_file"] = "users"

    def _acl(self, line: _Line) -> None:
        self._has_acl = True
        if (text := self._text(line)) is None:
            return
        try:
            found = import_acl(text, line.value)
        except FileError as error:
            raise Refused(str(error)) from error
        self._found.notes += found.notes
        self._found.acl = (self._found.acl or "") + found.text
        self._found.keys["auth.acl_file"] = "acl"

    def _text(self, line: _Line) -> str | None:
        try:
            return read_text(line.value)
        except FileError as error:
            raise Refused(f"{line.where}: {error}") from error

    def _log(self, line: _Line) -> None:
        kind, _, path = line.value.partition(" ")
        if kind == "file":
            self._found.keys["log.file"] = path.strip()
        elif kind not in ("stderr", "stdout", "none"):
            self._note(line, "the log goes to standard error, or to log.file")

    def _put(self, keys: dict[str, Any], line: _Line, key: str, read: Callable[[str], Any]) -> None:
        try:
            keys[key] = read(line.value)
        except ValueError as error:
            self._note(line, f"{line.value!r} is not taken over: {error}")

    def _note(self, line: _Line, text: str) -> None:
        self._found.notes.append(f"{line.where}: {line.key}: {text}")


def _lines(path: str, depth: int) -> Iterator[_Line]:
    try:
        text = read_text(path)
    except FileError as error:
        raise Refused(str(error)) from error
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, _, value = line.strip().partition(" ")
        if key != "include_dir":
            yield _Line(f"{path}:{number}", key, value.strip())
        elif depth < _DEEPEST:
            for below in sorted(Path(value.strip()).glob("*.conf")):
                yield from _lines(str(below), depth + 1)


def _flag(value: str) -> bool:
    if value not in ("true", "false"):
        raise ValueError("it is neither true nor false")
    return value == "true"


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
    if value == "-1":
        raise ValueError("-1 is the default: as many as there are descriptors for")
    return _number(value)


def _path(value: str) -> str:
    return str(Path(value).absolute())


_KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "allow_anonymous": ("auth.allow_anonymous", _flag),
    "allow_zero_length_clientid": ("mqtt.allow_empty_client_id", _flag),
    "max_inflight_messages": ("mqtt.max_inflight", _limit),
    "max_packet_size": ("mqtt.max_packet_size", _limit),
    "max_queued_bytes": ("mqtt.max_queued_bytes", _limit),
    "max_queued_messages": ("mqtt.max_queued_messages", _limit),
    "persistent_client_expiration": ("mqtt.session_expiry_interval", _span),
    "retain_available": ("mqtt.retain_available", _flag),
    "sys_interval": ("mqtt.sys_interval", _number),
    "max_topic_alias": ("mqtt.topic_alias_maximum", _number),
    "max_qos": ("mqtt.max_qos", _number),
}
_LISTENER_KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
    **dict.fromkeys(("port", "bind_address", "protocol", "use_identity_as_username"), ("", str)),
    "certfile": ("tls.cert", _path),
    "keyfile": ("tls.key", _path),
    "cafile": ("tls.ca", _path),
    "crlfile": ("tls.crl", lambda value: [_path(value)]),
    "require_certificate": ("tls.require_client_certificate", _flag),
    "tls_version": ("tls.min_version", _tls_version),
    "ciphers": ("tls.ciphers", str),
    "max_connections": ("max_connections", _connections),
}
_FILES: dict[str, Callable[[_Reading, _Line], None]] = {
    "password_file": _Reading._users,
    "acl_file": _Reading._acl,
    "log_dest": _Reading._log,
}
