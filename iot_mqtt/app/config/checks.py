"""What must hold between keys before a node may serve, each as one line that names the key and the way out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from iot_mqtt.app.config.effects import without_effect
from iot_mqtt.app.config.errors import Layer, Problem
from iot_mqtt.app.config.log_topics import check_filter, retention_of
from iot_mqtt.app.config.loopback import is_loopback
from iot_mqtt.app.config.plugin_entries import entry_of
from iot_mqtt.app.config.reading import LoadedConfig, hidden
from iot_mqtt.app.config.sections import ListenerConfig
from iot_mqtt.app.config.tls_checks import tls_problems, tls_sections
from iot_mqtt.app.config.webhooks import webhook_problems
from iot_mqtt.pipeline.proxy_protocol import networks
from iot_mqtt.pipeline.websocket.origins import ANY, OPAQUE, parse_origin
from iot_mqtt.uplink.kafka.settings import refusal, unknown_option
from iot_mqtt.uplink.rules import folded, rules_of

_HOST = re.compile(r"\*|(?:\*\.)?[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?")


def serving_problems(loaded: LoadedConfig) -> list[Problem]:
    """Everything that keeps this configuration from being served."""
    checks = (
        without_effect,
        _cluster,
        _log_topics,
        uplink_rule_problems,
        _uplink_ack,
        _uplink_kafka,
        _uplink_commands,
        _plugins,
        _outboxes,
        _proxies,
        _origins,
        tls_problems,
        _chains,
        _limits,
        _webhooks,
        _files,
        _exposure,
        _admin_exposure,
        _admin_hosts,
        _collisions,
    )
    found = [problem for check in checks for problem in check(loaded)]
    return hidden(found, (setting for settings in loaded.written.values() for setting in settings))


def _cluster(loaded: LoadedConfig) -> Iterator[Problem]:
    """Nodes that share a grid must know of each other, and those that know of each other share one."""
    grid, registry = loaded.config.grid, loaded.config.registry
    if grid.kind == "ignite" and registry.kind == "none":
        text = "must be zookeeper or static with grid.kind: ignite, or two nodes would not know of each other"
        yield _problem(loaded, "registry.kind", text)
    if grid.kind != "ignite" and registry.kind != "none":
        yield _problem(loaded, "registry.kind", f"{registry.kind} needs grid.kind: ignite; a node of its own has none")
    if registry.kind == "static" and loaded.config.node.id not in registry.static.nodes:
        text = f"must list every node, this one ({loaded.config.node.id}) included"
        yield _problem(loaded, "registry.static.nodes", text)
    if (registry.zookeeper.username is None) != (registry.zookeeper.password is None):
        yield _problem(loaded, "registry.zookeeper.password", "must be set where username is, and only there")
    addresses = {
        "grid.ignite.addresses": grid.ignite.addresses,
        "grid.ignite.gateway": grid.ignite.gateway,
        "registry.zookeeper.hosts": registry.zookeeper.hosts,
    }
    for key, listed in addresses.items():
        for address in listed:
            if not re.fullmatch(r"\S+:\d{1,5}(/\S*)?", address):
                yield _problem(loaded, key, f"must be host:port, not {address!r}")


def _log_topics(loaded: LoadedConfig) -> Iterator[Problem]:
    for number, entry in enumerate(loaded.config.log.topics, start=1):
        try:
            retention_of(entry)
        except ValueError as wrong:
            yield _problem(loaded, "log.topics", f"entry {number}: {wrong}")
    for number, filter in enumerate(loaded.config.log.record, start=1):
        try:
            check_filter(filter)
        except ValueError as wrong:
            yield _problem(loaded, "log.record", f"entry {number}: {wrong}")


def uplink_rule_problems(loaded: LoadedConfig) -> Iterator[Problem]:
    """What keeps ``uplink.rules`` from being used, now or in a node that runs."""
    uplink = loaded.config.uplink
    rules, mistakes = rules_of(uplink.rules)
    for wrong in mistakes:
        yield _problem(loaded, "uplink.rules", wrong)
    if uplink.kind == "kafka":
        # Whoever may publish what a rule wants would command every device, or be taken for what nobody could deal with.
        ours = {
            "uplink.commands.dead_letters": uplink.commands.dead_letters,
            "uplink.kafka.dead_letters": uplink.kafka.dead_letters,
            "uplink.commands.topic": uplink.commands.topic,
        }
        keys = {folded(name): key for key, name in ours.items() if name is not None}
        for rule in rules:
            if (key := keys.get(folded(rule.certain_to))) is not None:
                may = "is" if rule.to_template is None else "may be"
                text = f"{rule.filter!r}: to is {rule.to}, which {may} {key}; let it have another topic"
                yield _problem(loaded, "uplink.rules", text)
    if uplink.kind != "none" and not uplink.rules:
        yield _problem(loaded, "uplink.rules", f"must say what goes up with uplink.kind: {uplink.kind}")


def _uplink_ack(loaded: LoadedConfig) -> Iterator[Problem]:
    uplink = loaded.config.uplink
    if uplink.ack == "kafka" and uplink.kind != "kafka":
        text = f"kafka needs uplink.kind: kafka, not {uplink.kind}; set spool"
        if uplink.kind == "file":
            # Every publisher would have to wait for the end of a file.
            text = (
                "kafka needs uplink.kind: kafka; with file, records are safe when a file is finished, "
                f"{uplink.file.rotate_seconds:g} seconds later, and publishers would wait so long: set spool"
            )
        yield _problem(loaded, "uplink.ack", text)


def _uplink_kafka(loaded: LoadedConfig) -> Iterator[Problem]:
    told = loaded.config.uplink.kafka
    refused = [why for name, value in told.options.items() if (why := refusal(name, value)) is not None]
    for why in refused:
        yield _problem(loaded, "uplink.kafka.options", why)
    if loaded.config.uplink.kind != "kafka":
        return
    if not told.bootstrap_servers:
        yield _problem(loaded, "uplink.kafka.bootstrap_servers", "must name one broker at least, host:port")
    if not told.create_topics:
        for name in ("partitions", "replication"):
            if getattr(told, name):
                text = "is for topics that this node makes: set uplink.kafka.create_topics: true, or leave it out"
                yield _problem(loaded, f"uplink.kafka.{name}", text)
    security = told.security
    if security.protocol.startswith("sasl") and not (security.username and security.password):
        text = f"must be set, and username, with uplink.kafka.security.protocol: {security.protocol}"
        yield _problem(loaded, "uplink.kafka.security.password", text)
    if (security.cert is None) != (security.key is None):
        yield _problem(loaded, "uplink.kafka.security.key", "must be set where cert is, and only there")
    if not refused and (unknown := unknown_option(told.options)) is not None:
        yield _problem(loaded, "uplink.kafka.options", unknown)


def _uplink_commands(loaded: LoadedConfig) -> Iterator[Problem]:
    uplink, devices = loaded.config.uplink, loaded.config.devices
    told = uplink.commands
    if uplink.kind != "kafka" or told.topic is None:
        return
    if not devices.commands:
        yield _problem(loaded, "uplink.commands.topic", "must be null where devices.commands is false")
    if told.max_age > devices.keep_commands:
        text = (
            f"must be devices.keep_commands ({devices.keep_commands:g}) at most, or a record that comes again could be "
            "done again: its command would be forgotten"
        )
        yield _problem(loaded, "uplink.commands.max_age", text)
    if told.topic == told.dead_letters:
        yield _problem(loaded, "uplink.commands.dead_letters", f"must be another topic than {told.topic}")


def _plugins(loaded: LoadedConfig) -> Iterator[Problem]:
    names: set[str] = set()
    for number, entry in enumerate(loaded.config.plugins.codecs, start=1):
        try:
            name, _ = entry_of(entry)
        except ValueError as wrong:
            yield _problem(loaded, "plugins.codecs", f"entry {number}: {wrong}")
            continue
        if name in names:
            yield _problem(loaded, "plugins.codecs", f"entry {number}: there is an entry for {name} before it")
        names.add(name)
    for name, listener in loaded.config.enabled_listeners.items():
        if listener.protocol == "frames" and not listener.codec:
            yield _problem(loaded, f"listeners.{name}.codec", "must be set where protocol is frames")
        if listener.protocol != "frames" and listener.codec:
            yield _problem(loaded, f"listeners.{name}.codec", "is for protocol frames only")


def _outboxes(loaded: LoadedConfig) -> Iterator[Problem]:
    for name, listener in loaded.config.enabled_listeners.items():
        outbox = listener.outbox
        if not outbox.low <= outbox.high <= outbox.limit:
            text = f"must be low <= high <= limit, not {outbox.low}, {outbox.high}, {outbox.limit}"
            yield Problem(None, f"listeners.{name}.outbox", text)
    own = loaded.config.mqtt.application
    if not own.outbox_low <= own.outbox_high <= own.outbox_limit:
        text = f"must be low <= high <= limit, not {own.outbox_low}, {own.outbox_high}, {own.outbox_limit}"
        yield _problem(loaded, "mqtt.application.outbox_high", text)


def _proxies(loaded: LoadedConfig) -> Iterator[Problem]:
    """Who says for others who they are, was named."""
    for name, listener in loaded.config.enabled_listeners.items():
        key = f"listeners.{name}.trusted_proxies"
        if listener.proxy_protocol and not listener.trusted_proxies:
            text = "trusted_proxies beside it must name the load balancers' networks, or nobody could be believed"
            yield _problem(loaded, f"listeners.{name}.proxy_protocol", text)
        if listener.trusted_proxies and not listener.proxy_protocol:
            yield _problem(loaded, key, "has no effect without proxy_protocol: true beside it")
        yield from _networks(loaded, key, listener.trusted_proxies)
    yield from _networks(loaded, "doors.unlimited_addresses", loaded.config.doors.unlimited_addresses)


def _networks(loaded: LoadedConfig, key: str, texts: Iterable[str]) -> Iterator[Problem]:
    for network in texts:
        try:
            networks([network])
        except ValueError:
            yield _problem(loaded, key, f"must be networks or addresses such as 10.0.7.0/28, not {network!r}")


def _origins(loaded: LoadedConfig) -> Iterator[Problem]:
    for name, listener in loaded.config.enabled_listeners.items():
        key = f"listeners.{name}.allowed_origins"
        if listener.allowed_origins and listener.protocol != "websocket":
            yield _problem(loaded, key, "is for protocol websocket only")
        for origin in listener.allowed_origins:
            if origin not in (ANY, OPAQUE) and parse_origin(origin) is None:
                yield _problem(loaded, key, f"must be sites such as https://scada.example, or '*', not {origin!r}")


def _chains(loaded: LoadedConfig) -> Iterator[Problem]:
    """The links of each chain, and what they need."""
    # Late: whoever only reads the configuration need not load what verifies passwords.
    from iot_mqtt.auth.building import link_problems, problems

    settings = loaded.config.auth
    chains = {f"listeners.{name}.auth_chain": one.auth_chain for name, one in loaded.config.enabled_listeners.items()}
    for key, chain in {"auth.chain": settings.chain, **chains}.items():
        for text in problems(settings, chain):
            yield _problem(loaded, key, text)
    for key, text in link_problems(settings):
        yield _problem(loaded, key, text)


def _limits(loaded: LoadedConfig) -> Iterator[Problem]:
    """Who may use up how much."""
    # Late, as above.
    from iot_mqtt.auth.limit_rules import rules_of as limit_rules_of

    try:
        limit_rules_of(loaded.config.auth.limits, "auth.limits")
    except ValueError as wrong:
        yield _problem(loaded, "auth.limits", str(wrong))


def _webhooks(loaded: LoadedConfig) -> Iterator[Problem]:
    for wrong in webhook_problems(loaded.config.events.webhooks):
        yield _problem(loaded, "events.webhooks", wrong)


def _files(loaded: LoadedConfig) -> Iterator[Problem]:
    keys = ["auth.users_file"]
    keys += [f"auth.jwt.{part}" for part in ("secret_file", "public_key_file", "jwks_file", "jwks_ca")]
    keys += ["auth.http.token_file", "auth.http.ca"]
    if loaded.config.uplink.kind == "kafka":
        keys += [f"uplink.kafka.security.{part}" for part in ("ca", "cert", "key")]
    if loaded.config.grid.kind == "ignite":
        keys += [f"grid.ignite.tls.{part}" for part in ("ca", "cert", "key")]
    if loaded.config.registry.kind == "zookeeper":
        keys += [f"registry.zookeeper.tls.{part}" for part in ("ca", "cert", "key")]
    for prefix in tls_sections(loaded):
        keys += [f"{prefix}.{part}" for part in ("cert", "key", "ca")]
    named = [(key, loaded.value(key)) for key in keys]
    named += [("auth.acl_file", path) for path in loaded.config.auth.acl_file or ()]
    for key, path in named:
        if isinstance(path, str) and not os.access(path, os.R_OK):
            if Path(path).exists():
                what = "is not readable for the user that the node runs as"
            else:
                fix = f"; create it with: iot-mqtt passwd {path} USER" if key == "auth.users_file" else ""
                what = f"does not exist{fix}"
            yield _problem(loaded, key, f"{path} {what}")


def _exposure(loaded: LoadedConfig) -> Iterator[Problem]:
    """Nobody is let in from other machines unasked: either clients prove who they are or it was written out."""
    if loaded.config.auth.chain:
        return
    if not loaded.config.auth.allow_anonymous or "auth.allow_anonymous" in loaded.written:
        return
    for name, listener in loaded.config.enabled_listeners.items():
        if not is_loopback(listener.host) and not _proves_who(listener) and not listener.auth_chain:
            text = (
                f"{listener.host} listens beyond loopback without authentication; "
                "set auth.users_file, or write out auth.allow_anonymous: true"
            )
            yield _problem(loaded, f"listeners.{name}.host", text)


def _admin_exposure(loaded: LoadedConfig) -> Iterator[Problem]:
    """The token is not sent in plain text over a network, unless somebody wrote that it may be."""
    admin = loaded.config.admin
    if admin.enabled and admin.scheme == "http" and not admin.allow_plain and not is_loopback(admin.host):
        text = (
            f"{admin.host} listens beyond loopback without TLS; set admin.tls.cert and key, or write out "
            "admin.allow_plain: true"
        )
        yield _problem(loaded, "admin.host", text)


def _admin_hosts(loaded: LoadedConfig) -> Iterator[Problem]:
    """A name with a scheme or a port would be no request's."""
    for name in loaded.config.admin.hosts:
        if not _HOST.fullmatch(name):
            yield _problem(loaded, "admin.hosts", f"{name!r} is no name of a host, *.NAME or *")


def _proves_who(listener: ListenerConfig) -> bool:
    return listener.secure and listener.tls.require_client_certificate


def _collisions(loaded: LoadedConfig) -> Iterator[Problem]:
    taken: dict[str, tuple[str, int]] = {}
    ports = {f"listeners.{name}": (item.host, item.port) for name, item in loaded.config.enabled_listeners.items()}
    if loaded.config.admin.enabled:
        ports["admin"] = (loaded.config.admin.host, loaded.config.admin.port)
    for key, place in ports.items():
        other = next((name for name, there in taken.items() if _same_place(place, there)), None)
        if other is not None:
            yield _problem(loaded, f"{key}.port", f"{place[0]}:{place[1]} is already taken by {other}")
        taken[key] = place


def _same_place(one: tuple[str, int], other: tuple[str, int]) -> bool:
    everywhere = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound
    return one[1] == other[1] != 0 and (one[0] == other[0] or one[0] in everywhere or other[0] in everywhere)


def _problem(loaded: LoadedConfig, key: str, text: str) -> Problem:
    origin = loaded.origin(key)
    return Problem(None if origin.layer is Layer.DEFAULT else origin, key, text)
