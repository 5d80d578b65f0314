"""The options that ``pub`` and ``sub`` share, called as mosquitto's clients call them, and what they amount to."""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import click

from iot_mqtt.app.client.client import Client
from iot_mqtt.app.client.errors import ClientError
from iot_mqtt.app.client.protocol import MAX_INFLIGHT, Protocol
from iot_mqtt.app.client.streams import Address, Tls, connect
from iot_mqtt.app.terminal import NumberRange, plain, together
from iot_mqtt.codec import Connack, Connect, ConnectWill, Packet, Properties, check_topic, encode
from iot_mqtt.errors import MqttError
from iot_mqtt.values import NEVER, ProtocolVersion

_VERSIONS: Final = {
    **dict.fromkeys(("31", "3.1", "mqttv31"), ProtocolVersion.V31),
    **dict.fromkeys(("311", "3.1.1", "mqttv311"), ProtocolVersion.V311),
    **dict.fromkeys(("5", "5.0", "mqttv5"), ProtocolVersion.V5),
}
_FILE: Final = click.Path(exists=True, dir_okay=False)
_U32: Final = click.IntRange(0, NEVER)
_U16: Final = click.IntRange(0, 0xFFFF)
#: Of a URL: TLS, WebSocket, port.
_SCHEMES: Final = {
    "mqtt": (False, False, 1883),
    "mqtts": (True, False, 8883),
    "ws": (False, True, 80),
    "wss": (True, True, 443),
}

connection_options = together(
    # Where.
    click.option("-h", "--host", default="localhost", envvar="IOT_MQTT_CLIENT_HOST", show_default=True),
    click.option("-p", "--port", type=click.IntRange(1, 0xFFFF), help="[default: 1883; 8883 with TLS; 8083 with --ws]"),
    click.option("-L", "--url", help="mqtt[s]://[user[:password]@]host[:port]/topic, or ws[s]://host[:port]/path."),
    click.option("--unix", type=click.Path(), help="Path of a Unix socket, instead of host and port."),
    click.option("--ws", help="Speak WebSocket at this path, such as /mqtt."),
    click.option("-A", "--bind", help="Local address."),
    click.option("--connect-timeout", type=NumberRange(0.1), default=10.0, show_default=True, help="Seconds."),
    # TLS.
    click.option("--tls", is_flag=True, help="TLS with the system's authorities; --cafile and --cert mean TLS, too."),
    click.option("--cafile", type=_FILE, envvar="IOT_MQTT_CLIENT_CAFILE", help="Authorities to believe, as PEM."),
    click.option("--capath", type=click.Path(exists=True, file_okay=False), help="Directory of authorities."),
    click.option("--cert", type=_FILE, help="Certificate of this client."),
    click.option("--key", type=_FILE, help="Key of that certificate."),
    click.option("--insecure", is_flag=True, help="Believe every certificate. For trying things out only."),
    click.option("--tls-alpn", help="Protocol to ask for with ALPN."),
    # Who.
    click.option("-V", "--protocol-version", type=click.Choice(tuple(_VERSIONS)), default="5", show_default=True),
    click.option("-i", "--id", "client_id", help="Client id. Without it the broker chooses one."),
    click.option("-I", "--id-prefix", help="Client id is this and the process id."),
    click.option("-u", "--username", envvar="IOT_MQTT_CLIENT_USERNAME"),
    click.option(
        "-P", "--pw", "password", envvar="IOT_MQTT_CLIENT_PASSWORD", help="Password; better in a file, or asked for."
    ),
    click.option("--password-file", type=_FILE, help="The password is the first line of this file."),
    click.option("--ask-password", is_flag=True, help="Ask for the password."),
    # How.
    click.option("-k", "--keepalive", type=_U16, default=60, show_default=True, help="Seconds; 0: none."),
    click.option("-c", "--disable-clean-session", "keep", is_flag=True, help="Keep the session. Needs -i."),
    click.option("-x", "--session-expiry-interval", type=click.IntRange(-1, NEVER), help="Seconds; -1: for ever."),
    click.option("--max-inflight", type=click.IntRange(1, 0xFFFF), help="Messages on their way at once."),
    click.option("--max-packet-size", type=click.IntRange(1, NEVER), help="Larger packets are not sent to us."),
    click.option("--connect-user-property", "connect_users", nargs=2, multiple=True, metavar="NAME VALUE"),
    click.option("--disconnect-expiry", type=_U32, help="Session expiry that DISCONNECT asks for."),
    # Will.
    click.option("--will-topic"),
    click.option("--will-payload", default=""),
    click.option("--will-qos", type=click.IntRange(0, 2), default=0),
    click.option("--will-retain", is_flag=True),
    click.option("--will-delay", type=_U32, help="Seconds."),
    click.option("--will-expiry", type=_U32, help="Message expiry interval, seconds."),
    click.option("--will-content-type"),
    click.option("--will-response-topic"),
    click.option("--will-correlation-data"),
    click.option("--will-payload-format", type=click.IntRange(0, 1)),
    click.option("--will-user-property", "will_users", nargs=2, multiple=True, metavar="NAME VALUE"),
    # What is said.
    click.option("-d", "--debug", is_flag=True, help="Say on standard error what comes and goes."),
    click.option("--quiet", is_flag=True, help="Say nothing on standard error, except what is wrong with the command."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
)

#: ``-D packet name``, as mosquitto's clients have it, and the option that it stands for.
_PROPERTIES: Final = {
    ("connect", "session-expiry-interval"): "--session-expiry-interval",
    ("connect", "receive-maximum"): "--receive-maximum",
    ("connect", "maximum-packet-size"): "--max-packet-size",
    ("connect", "topic-alias-maximum"): "--topic-alias-maximum",
    ("connect", "user-property"): "--connect-user-property",
    ("disconnect", "session-expiry-interval"): "--disconnect-expiry",
    ("publish", "content-type"): "--content-type",
    ("publish", "correlation-data"): "--correlation-data",
    ("publish", "message-expiry-interval"): "--message-expiry",
    ("publish", "payload-format-indicator"): "--payload-format",
    ("publish", "response-topic"): "--response-topic",
    ("publish", "topic-alias"): "--topic-alias",
    ("publish", "user-property"): "--user-property",
    ("subscribe", "subscription-identifier"): "--subscription-id",
    ("subscribe", "user-property"): "--user-property",
    ("will", "content-type"): "--will-content-type",
    ("will", "correlation-data"): "--will-correlation-data",
    ("will", "message-expiry-interval"): "--will-expiry",
    ("will", "payload-format-indicator"): "--will-payload-format",
    ("will", "response-topic"): "--will-response-topic",
    ("will", "user-property"): "--will-user-property",
    ("will", "will-delay-interval"): "--will-delay",
}


class MosquittoCommand(click.Command):
    """A command that also takes ``-D packet name value``; ``-h`` is the host, and help is ``--help``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_property_options(args))


def with_property_options(arguments: list[str]) -> list[str]:
    """The arguments with options of our own for each ``-D packet name``; the values behind them stay."""
    found: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument not in ("-D", "--property"):
            found.append(argument)
            continue
        named = (next(rest, ""), next(rest, ""))
        if named not in _PROPERTIES:
            known = ", ".join(" ".join(one) for one in _PROPERTIES)
            raise click.UsageError(f"-D {' '.join(named)} is not known; there are: {known}")
        found.append(_PROPERTIES[named])
    return found


@dataclass(frozen=True, slots=True)
class Link:
    """A connected client, and what the broker said to it."""

    client: Client
    connack: Connack
    client_id: str


@dataclass(frozen=True, slots=True)
class Setup:
    """Where to connect to, as whom, and how."""

    address: Address
    connect: Connect
    patience: float
    max_inflight: int
    #: Of the URL.
    topic: str | None
    disconnect: Properties
    debug: bool
    quiet: bool

    def open(self) -> Link:
        """A new connection. Raises ``ClientError``."""
        stream = connect(self.address, self.patience)
        protocol = Protocol(self.connect, max_inflight=self.max_inflight)
        client = Client(stream, protocol, self.connect.keep_alive, self.note if self.debug else None)
        try:
            connack = client.connect(self.patience)
        except BaseException:
            client.drop()
            raise
        return Link(client, connack, connack.properties.assigned_client_identifier or self.connect.client_id)

    def note(self, text: str) -> None:
        if self.debug:
            click.echo(text, err=True)

    def warn(self, text: str) -> None:
        if not self.quiet:
            click.echo(text, err=True)


def failing(quiet: bool, error: ClientError) -> SystemExit:
    """The end of the command, after one line on standard error."""
    if not quiet:
        click.echo(f"Error: {plain(str(error))}", err=True)
    return SystemExit(error.exit_code)


def setup(kind: str, options: dict[str, Any], **asked: Any) -> Setup:
    """What the options amount to; ``asked``: further properties of CONNECT."""
    options = {**options, **_of_url(options)}
    version = _VERSIONS[options["protocol_version"]]
    try:
        connect = _connect(kind, version, options, asked)
    except MqttError as error:
        raise click.UsageError(f"the will cannot be: {error}") from error
    check(connect, version)
    expiry = options["disconnect_expiry"]
    return Setup(
        _address(options),
        connect,
        options["connect_timeout"],
        options["max_inflight"] or MAX_INFLIGHT,
        options.get("topic_of_url"),
        Properties(session_expiry_interval=_five(version, "--disconnect-expiry", expiry)),
        options["debug"],
        options["quiet"],
    )


def check(packet: Packet, version: ProtocolVersion) -> None:
    """Refuse a command of which MQTT has no way to say it: fields that are too long, or no UTF-8."""
    try:
        encode(packet, version)
    except UnicodeEncodeError as error:
        raise click.UsageError(f"{plain(error.object)[:80]!r} is no text in UTF-8") from error
    except ValueError as error:
        raise click.UsageError(f"MQTT has no way to say that: {error}") from error


def _of_url(options: dict[str, Any]) -> dict[str, Any]:
    """What the URL says instead of other options."""
    if options["url"] is None:
        return {}
    try:
        parts = urlsplit(options["url"])
        tls, ws, port = _SCHEMES[parts.scheme]
        found: dict[str, Any] = {"host": parts.hostname or "localhost", "port": parts.port or port}
    except (KeyError, ValueError):
        raise click.UsageError("-L is mqtt://HOST, mqtts://HOST, ws://HOST or wss://HOST") from None
    found["tls"] = options["tls"] or tls
    path = unquote(parts.path)
    if ws:
        found["ws"] = path or "/"
    elif len(path) > 1:
        found["topic_of_url"] = path[1:]
    if parts.username:
        found["username"] = unquote(parts.username)
    if parts.password:
        found["password"] = unquote(parts.password)
    return found


def _address(options: dict[str, Any]) -> Address:
    named = any(options[name] for name in ("tls", "cafile", "capath", "cert", "insecure"))
    if options["key"] and not options["cert"]:
        raise click.UsageError("--key belongs to --cert")
    tls = None
    if named:
        tls = Tls(
            **{name: options[name] for name in ("cafile", "capath", "cert", "key", "insecure")},
            alpn=options["tls_alpn"],
        )
    port = options["port"] or (8083 if options["ws"] else 8883 if tls else 1883)
    return Address(options["host"], port, tls, options["ws"], options["unix"], options["bind"])


def _connect(kind: str, version: ProtocolVersion, options: dict[str, Any], asked: dict[str, Any]) -> Connect:
    five = version is ProtocolVersion.V5
    keep = options["keep"]
    client_id = _client_id(kind, version, options)
    if keep and not client_id:
        raise click.UsageError("-c keeps a session, and a session needs a name: -i")
    expiry = _five(version, "-x", options["session_expiry_interval"])
    if expiry is None and keep and five:
        expiry = NEVER
    password = _password(options)
    if password is not None and options["username"] is None and not five:
        raise click.UsageError("MQTT 3 has no password without a user name: -u")
    properties = Properties(
        session_expiry_interval=NEVER if expiry == -1 else expiry,
        maximum_packet_size=_five(version, "--max-packet-size", options["max_packet_size"]),
        user_properties=_five(version, "--connect-user-property", options["connect_users"]) or (),
        **{name: _five(version, f"--{name.replace('_', '-')}", value) for name, value in asked.items()},
    )
    return Connect(
        version,
        client_id,
        not keep,
        options["keepalive"],
        options["username"],
        password,
        _will(version, options),
        properties,
    )


def _client_id(kind: str, version: ProtocolVersion, options: dict[str, Any]) -> str:
    given, prefix = options["client_id"], options["id_prefix"]
    if given is not None and prefix is not None:
        raise click.UsageError("-i and -I exclude each other")
    if prefix is not None:
        return f"{prefix}{os.getpid()}"
    if given is None and version is ProtocolVersion.V31:
        # It knows no ids that the broker chooses.
        return f"iot-mqtt-{kind}-{secrets.token_hex(4)}"
    return given or ""


def _password(options: dict[str, Any]) -> bytes | None:
    given, file = options["password"], options["password_file"]
    if file is not None:
        with Path(file).open("rb") as opened:
            return opened.readline(65_537).rstrip(b"\r\n")
    if options["ask_password"]:
        if not sys.stdin.isatty() and not sys.stderr.isatty():
            raise click.UsageError("there is no terminal to ask for the password at; use --password-file")
        return str(click.prompt("Password", hide_input=True, err=True)).encode()
    return None if given is None else os.fsencode(given)


def _will(version: ProtocolVersion, options: dict[str, Any]) -> ConnectWill | None:
    topic = options["will_topic"]
    names = {
        "will_delay_interval": "will_delay",
        "message_expiry_interval": "will_expiry",
        "content_type": "will_content_type",
        "response_topic": "will_response_topic",
        "payload_format_indicator": "will_payload_format",
        "user_properties": "will_users",
    }
    if topic is None:
        if options["will_payload"] or options["will_retain"] or any(options[name] for name in names.values()):
            raise click.UsageError("a will has a --will-topic")
        return None
    check_topic(os.fsencode(topic))
    found: dict[str, Any] = {
        name: _five(version, f"--{option.replace('_', '-')}", options[option]) for name, option in names.items()
    }
    found["user_properties"] = found["user_properties"] or ()
    if options["will_correlation_data"] is not None:
        found["correlation_data"] = os.fsencode(
            _five(version, "--will-correlation-data", options["will_correlation_data"])
        )
    payload = os.fsencode(options["will_payload"])
    return ConnectWill(os.fsencode(topic), payload, options["will_qos"], options["will_retain"], Properties(**found))


def _five(version: ProtocolVersion, option: str, value: Any) -> Any:
    """The value of an option that MQTT 3 has no place for."""
    if value in (None, ()) or version is ProtocolVersion.V5:
        return value
    raise click.UsageError(f"{option} needs MQTT 5: -V 5")
