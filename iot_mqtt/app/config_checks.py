"""What must hold between keys before a node may serve, each as one line that names the key and the way out."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator
from pathlib import Path

from iot_mqtt.app.config_errors import Layer, Problem
from iot_mqtt.app.config_read import LoadedConfig
from iot_mqtt.app.config_sections import ListenerConfig
from iot_mqtt.app.log_topics import retention_of
from iot_mqtt.app.plugin_entries import entry_of
from iot_mqtt.uplink.rules import rule_of

#: Values that the schema has and this version does not: key, value, and what to use instead.
_NOT_YET = (("uplink.kind", "kafka", "file or none"),)


def serving_problems(loaded: LoadedConfig) -> list[Problem]:
    """Everything that keeps this configuration from being served."""
    checks = (
        _not_yet,
        _cluster,
        _log_topics,
        _uplink_rules,
        _plugins,
        _outboxes,
        _certificates,
        _files,
        _exposure,
        _collisions,
    )
    return [problem for check in checks for problem in check(loaded)]


def is_loopback(host: str) -> bool:
    """Whether a listener on this host is out of reach of other machines; a name is not looked up."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _not_yet(loaded: LoadedConfig) -> Iterator[Problem]:
    for key, value, instead in _NOT_YET:
        if loaded.value(key) == value:
            yield _problem(loaded, key, f"{value} is not available in this version yet; use {instead}")


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


def _uplink_rules(loaded: LoadedConfig) -> Iterator[Problem]:
    uplink = loaded.config.uplink
    for number, entry in enumerate(uplink.rules, start=1):
        try:
            rule_of(entry)
        except ValueError as wrong:
            yield _problem(loaded, "uplink.rules", f"entry {number}: {wrong}")
    if uplink.kind != "none" and not uplink.rules:
        yield _problem(loaded, "uplink.rules", f"must say what goes up with uplink.kind: {uplink.kind}")


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


def _certificates(loaded: LoadedConfig) -> Iterator[Problem]:
    for name, listener in loaded.config.enabled_listeners.items():
        prefix, tls = f"listeners.{name}.tls", listener.tls
        if name in ("mqtts", "wss") and tls.cert is None:
            yield _problem(loaded, f"{prefix}.cert", "must be set where the listener is enabled")
        if tls.cert is not None and tls.key is None:
            yield _problem(loaded, f"{prefix}.key", "must be set beside cert")
        if tls.key is not None and tls.cert is None and name not in ("mqtts", "wss"):
            yield _problem(loaded, f"{prefix}.cert", "must be set beside key, or the port would speak plain text")
        if tls.require_client_certificate and tls.ca is None:
            yield _problem(loaded, f"{prefix}.ca", "must be set to verify the client certificates that are required")
        if tls.require_client_certificate and tls.cert is None:
            yield _problem(loaded, f"{prefix}.cert", "must be set where client certificates are required")


def _files(loaded: LoadedConfig) -> Iterator[Problem]:
    keys = ["auth.users_file", "auth.acl_file"]
    for name in loaded.config.enabled_listeners:
        keys += [f"listeners.{name}.tls.{part}" for part in ("cert", "key", "ca")]
    for key in keys:
        path = loaded.value(key)
        if isinstance(path, str) and not os.access(path, os.R_OK):
            fix = f"; create it with: iot-mqtt passwd {path} USER" if key == "auth.users_file" else ""
            what = "is not readable" if Path(path).exists() else "does not exist"
            yield _problem(loaded, key, f"{path} {what}{fix}")


def _exposure(loaded: LoadedConfig) -> Iterator[Problem]:
    """Nobody is let in from other machines unasked: either clients prove who they are or it was written out."""
    if not loaded.config.auth.allow_anonymous or "auth.allow_anonymous" in loaded.written:
        return
    for name, listener in loaded.config.enabled_listeners.items():
        if not is_loopback(listener.host) and not _proves_who(listener):
            text = (
                f"{listener.host} listens beyond loopback without authentication; "
                "set auth.users_file, or write out auth.allow_anonymous: true"
            )
            yield _problem(loaded, f"listeners.{name}.host", text)


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
