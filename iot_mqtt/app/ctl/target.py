"""Which node ``ctl`` talks to: what the command line says, and where the rest is found."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iot_mqtt.app.ctl.errors import CtlError

if TYPE_CHECKING:
    import ssl

    from iot_mqtt.app.ctl.node import Node


@dataclass(slots=True)
class Target:
    """Which node is meant, as far as the command line says so; ``connect`` finds out the rest."""

    url: str | None = None
    token: str | None = None
    cacert: str | None = None
    cert: str | None = None
    cert_key: str | None = None
    data_dir: str | None = None
    config: str | None = None
    #: Node of the cluster that it is about.
    on: str | None = None
    as_json: bool = False
    wide: bool = False
    #: Seconds between two looks; None: one is enough.
    watch: float | None = None

    def connect(self) -> Node:
        """The URL that was named, else the one that the node left in its data directory, else the configured one."""
        if self.url and self.token:
            return self._node(self.url, self.token, None)
        data_dir = self.data_dir or self._data_dir()
        try:
            return self._of_directory(data_dir)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise CtlError(
                f"{error.filename or data_dir}: {why}; only who may read it talks to its node without --url and --token"
            ) from error

    def _of_directory(self, data_dir: str) -> Node:
        # Late: help needs no HTTP.
        from iot_mqtt.admin.token import announced, announced_certificate, read_token

        there = announced(data_dir)
        elsewhere = self.url is not None and self.url.rstrip("/") != there
        if elsewhere and not (self.data_dir and _on_this_machine(self.url)):
            raise CtlError(
                f"the token in {data_dir} is not sent to {self.url}, which is not the address that its node left "
                "there: name the token of that node with --token, or in IOT_MQTT_CTL_TOKEN"
            )
        token = self.token or read_token(data_dir)
        if token is None:
            raise CtlError(
                f"there is no admin.token in {data_dir}: no node was started there; "
                "name the directory with --data-dir, or the token with --token"
            )
        if self.url:
            return self._node(self.url, token, None)
        return self._node(there or self._configured(), token, announced_certificate(data_dir))

    def _node(self, url: str, token: str, pinned: str | None) -> Node:
        if not _sendable(token):
            raise CtlError(
                "the token has a line break, a space or a letter that no token has: copy it again in one piece"
            )
        from urllib.request import HTTPSHandler

        from iot_mqtt.app.ctl.node import Node, tokens_opener

        if not url.startswith("https://"):
            return Node(url, token, on=self.on)
        own = None if self.cert is None else (self.cert, self.cert_key)
        return Node(url, token, tokens_opener(HTTPSHandler(context=_trusting(self.cacert, pinned, own))), self.on)

    def _data_dir(self) -> str:
        """From the configuration, of which nothing else is looked at: ``ctl`` need not find what is wrong with it."""
        _standing_somewhere()
        # Late: whoever names the directory, or node and token, needs no YAML.
        from iot_mqtt.app.config.errors import ConfigError
        from iot_mqtt.app.config.layers import (
            DEFAULT_DATA_DIR,
            data_dir_of,
            default_file,
            environment_settings,
            file_settings,
        )

        problems: list[Any] = []
        path = self.config or default_file()
        file = [] if path is None else file_settings(path, problems)
        if problems:
            raise CtlError(str(ConfigError(problems)))
        return data_dir_of((file, environment_settings(os.environ)), DEFAULT_DATA_DIR)

    def _configured(self) -> str:
        """Where the node would be, if it had left no address."""
        _standing_somewhere()
        # Late: this knows every part of a node.
        from iot_mqtt.app.config import ConfigError, default_file, read_config

        try:
            config = read_config(self.config or default_file()).config
        except ConfigError as error:
            raise CtlError(str(error)) from error
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.admin.host, config.admin.host)  # noqa: S104
        host = f"[{host}]" if ":" in host else host
        return f"{config.admin.scheme}://{host}:{config.admin.port}"


def _sendable(token: str) -> bool:
    """Whether a token can stand in a header of HTTP."""
    return token.isascii() and token.isprintable() and " " not in token


def _on_this_machine(url: str | None) -> bool:
    from urllib.parse import urlsplit

    from iot_mqtt.app.config.loopback import is_loopback

    try:
        return is_loopback(urlsplit(url or "").hostname or "")
    except ValueError:  # [ without ]
        return False


def _standing_somewhere() -> None:
    """The configuration is looked for in the working directory; that may have been deleted since."""
    try:
        Path.cwd()
    except OSError as error:
        raise CtlError(
            "the working directory is gone: go to one that exists, "
            "or say where the node is with --data-dir, or --url and --token"
        ) from error


def _trusting(cacert: str | None, pinned: str | None, certificate: tuple[str, str | None] | None) -> ssl.SSLContext:
    """TLS of a client. ``cacert``: authorities that are believed, and no others. ``pinned``: without any, the very
    certificate that this file begins with, whatever name is in it. ``certificate``: the client's own, and its key.
    """
    import ssl  # late: a node may speak plain HTTP

    at = cacert or pinned or "the system's authorities"
    try:
        context = ssl.create_default_context(cafile=cacert or pinned)
        if pinned is not None and cacert is None:
            context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
            context.check_hostname = False
        if certificate is not None:
            at = certificate[0]
            context.load_cert_chain(*certificate)
    except (OSError, ValueError) as error:
        way_out = "" if cacert or certificate else "; name the authority's file with --cacert"
        raise CtlError(f"cannot use {at}: {getattr(error, 'reason', None) or error}{way_out}") from error
    return context
