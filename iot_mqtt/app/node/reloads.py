"""Reads again what people change in files while a node runs. What is wrong stays as it was, and the log says why."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from twisted.internet.defer import ensureDeferred

from iot_mqtt.app.node.certificates import Certificates
from iot_mqtt.app.node.configuration import Configuration
from iot_mqtt.app.node.file_looks import FileLooks
from iot_mqtt.auth.files import FileError
from iot_mqtt.auth.service import Access

log = logging.getLogger(__name__)


class Reloads:
    """Of one life. Connections that are there stay."""

    def __init__(self, access: Access, certificates: Certificates, configuration: Configuration, reactor: Any) -> None:
        self._access = access
        self._configuration = configuration
        self.users = FileLooks(self._look, reactor, "the files of users and rules")
        self.certificates = FileLooks(certificates.look, reactor, "the files of certificates")

    @property
    def alarms(self) -> tuple[str, ...]:
        """What an operator should do something about: users who were disabled are in meanwhile."""
        return tuple(map(_not_reloaded, self._access.outdated))

    def reload(self) -> None:
        """Read everything again: users, rules, certificates, the configuration."""
        for files in (self.users, self.certificates):
            reading = ensureDeferred(files.reload())
            reading.addErrback(lambda failure: log.error("not read again: %s", failure.getErrorMessage()))
        if self._configuration.read is not None:
            changing = ensureDeferred(self._configuration.reload())
            changing.addErrback(lambda failure: log.error("the configuration stays: %s", failure.getErrorMessage()))
        log.info("users, rules and certificates are read again")

    def _look(self, *, changed_only: bool) -> Callable[[], object]:
        return partial(_take, self._access.look(changed_only=changed_only))


def _take(found: Callable[[], Iterable[FileError]]) -> None:
    for error in found():
        log.error("%s", _not_reloaded(error))


def _not_reloaded(error: FileError) -> str:
    return f"access rules were not reloaded, the old ones stay: {error}"
