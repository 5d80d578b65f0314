"""Reads again what people change in files while a node runs. What is wrong stays as it was, and the log says why."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from twisted.internet.defer import ensureDeferred

from iot_mqtt.app.node.certificates import Certificates
from iot_mqtt.app.node.configuration import Configuration
from iot_mqtt.auth.files import FileError
from iot_mqtt.auth.service import Access

log = logging.getLogger(__name__)


class Reloads:
    """Of one life. Connections that are there stay."""

    def __init__(self, access: Access, certificates: Certificates, configuration: Configuration) -> None:
        self._access = access
        self._certificates = certificates
        self._configuration = configuration

    def look(self) -> None:
        """Read users and rules again if their files have changed; called regularly."""
        _report(self._access.reload_if_changed())

    def reload(self) -> None:
        """Read everything again: users, rules, certificates, the configuration."""
        _report(self._access.reload())
        self._certificates.reload()
        if self._configuration.read is not None:
            reading = ensureDeferred(self._configuration.reload())
            reading.addErrback(lambda failure: log.error("the configuration stays: %s", failure.getErrorMessage()))
        log.info("users, rules and certificates were read again")


def _report(errors: Iterable[FileError]) -> None:
    for error in errors:
        log.error("access rules were not reloaded, the old ones stay: %s", error)
