"""Ports that are opened and closed while the node serves: all that belongs to one comes and goes with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from twisted.internet.error import CannotListenError
from twisted.python.failure import Failure

from iot_mqtt.admin.configuration import ConfigRefused, InTheWay, ListenerInfo
from iot_mqtt.app.config.plugin_entries import plugin_settings
from iot_mqtt.app.config.sections import Config, ListenerConfig
from iot_mqtt.app.config.tls_checks import make_tls_settings
from iot_mqtt.app.node.certificates import Certificates
from iot_mqtt.app.node.configuration import Run
from iot_mqtt.app.node.gateways import Gateways
from iot_mqtt.app.node.listeners import Listeners
from iot_mqtt.auth.service import Access
from iot_mqtt.pipeline import TlsConfigurationError, TlsContext
from iot_mqtt.plugins.info import PluginError

log = logging.getLogger(__name__)


class RunningListeners:
    """Of one life, from ``ready`` on. ``moved`` is told where all of them accept now."""

    def __init__(
        self,
        listeners: Listeners,
        access: Access,
        gateways: Gateways,
        certificates: Certificates,
        moved: Callable[[Mapping[str, str]], None],
        run: Run,
    ) -> None:
        self._listeners = listeners
        self._access = access
        self._gateways = gateways
        self._certificates = certificates
        self._moved = moved
        self._run = run

    async def prepare(self, name: str, config: Config) -> None:
        """What a listener needs is there. Raises ``ConfigRefused``."""
        told = config.listeners[name]
        try:
            self._access.require(told.auth_chain)
        except ValueError as error:
            raise ConfigRefused(f"listeners.{name}.auth_chain: {error}") from error
        await self._try_certificates(name, told)
        if told.protocol != "frames" or told.codec is None or not plugin_settings(config)[told.codec].enabled:
            return
        known = {plugin.name: plugin for plugin in self._gateways.plugins.info()}
        if told.codec not in known or known[told.codec].state == "disabled":
            try:
                await self._gateways.plugins.enable(told.codec)
            except PluginError as error:
                raise ConfigRefused(f"listeners.{name}.codec: {error}") from error

    async def _try_certificates(self, name: str, told: ListenerConfig) -> None:
        """Files that do not come are to hold up whoever asks, and nobody else."""
        settings = make_tls_settings(told.tls)
        if settings is None:
            return
        try:
            await self._run(partial(TlsContext, settings))
        except TlsConfigurationError as error:
            raise ConfigRefused(f"listeners.{name}: {error}") from error

    def open(self, name: str, config: Config) -> None:
        """Accept. Raises ``ConfigRefused``."""
        told = config.listeners[name]
        self._access.serve(name, told.auth_chain)
        try:
            opened = self._listeners.add(name, told)
        except CannotListenError as error:
            raise InTheWay(f"listeners.{name}.port: {told.host}:{told.port}: {error.socketError}") from error
        except (TlsConfigurationError, OSError) as error:
            raise ConfigRefused(f"listeners.{name}: {error}") from error
        self._certificates.add(name, opened.tls)
        self._moved(self._listeners.addresses)
        log.info("listener %s was opened", name, extra={"port": opened.port})

    def close(self, name: str) -> None:
        """Accept no more, and let the clients go."""
        self._certificates.remove(name)
        closing = self._listeners.close(name)
        closing.addErrback(_report, name)
        self._moved(self._listeners.addresses)

    def infos(self, config: Config, layer_of: Callable[[str], str]) -> list[ListenerInfo]:
        """All that are configured, by name."""
        return [self._info(name, config, layer_of(name)) for name in sorted(config.listeners)]

    def _info(self, name: str, config: Config, layer: str) -> ListenerInfo:
        told, opened = config.listeners[name], self._listeners.get(name)
        counts = None if opened is None else opened.counts
        return ListenerInfo(
            name=name,
            open=opened is not None,
            protocol=told.protocol,
            host=told.host,
            port=told.port if opened is None else opened.port,
            tls=told.secure,
            path=told.path if told.protocol == "websocket" else None,
            codec=told.codec,
            layer=layer,
            connections=0 if counts is None else counts.open,
            accepted=0 if counts is None else counts.accepted,
            refused=0 if counts is None else counts.refused,
            most=0 if counts is None else counts.most,
            max_connections=told.max_connections,
        )


def _report(failure: Failure, name: str) -> None:
    log.error("clients of listener %s could not be let go", name, exc_info=failure.value)
