"""Reads again what people change in files while a node runs. What is wrong stays as it was, and the log says why."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from twisted.internet.defer import ensureDeferred

from iot_mqtt.app.config.reading import LoadedConfig, Reread
from iot_mqtt.app.config.sections import Config
from iot_mqtt.app.node.certificates import Certificates
from iot_mqtt.app.node.configuration import Configuration, Read
from iot_mqtt.app.node.file_looks import FileLooks
from iot_mqtt.app.slow_files import SlowFiles
from iot_mqtt.auth.files import FileError
from iot_mqtt.auth.service import Access
from iot_mqtt.ports.alarms import Alarm, AlarmKind

log = logging.getLogger(__name__)


class Reloads:
    """Of one life. Connections that are there stay."""

    def __init__(self, access: Access, certificates: Certificates, configuration: Configuration, reactor: Any) -> None:
        self._access = access
        self._configuration = configuration
        self.users = FileLooks(self._look, reactor, "the files of users and rules")
        self.certificates = FileLooks(certificates.look, reactor, "the files of certificates")

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator should do something about: users who were disabled are in meanwhile."""
        return tuple(Alarm(AlarmKind.ACCESS_FILE, _not_reloaded(error)) for error in self._access.outdated)

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


Result = TypeVar("Result")

#: Seconds for the configuration to be read again, or written.
PATIENCE = 10.0


class ConfigFiles:
    """``reread`` reads all of them; None: the configuration came from no files."""

    def __init__(self, reread: Reread | None, reactor: Any) -> None:
        self._reread = reread
        self._reactor = reactor

    def reader(self) -> Read | None:
        """Reads for somebody who puts in force what is written: one read at a time. None: there is nothing to read."""
        return None if self._reread is None else self._slow(self._reread).read_alone

    async def config(self, at_start: Config) -> Config:
        """As it is written now; ``at_start`` if it came from no files."""
        return at_start if self._reread is None else (await self._slow(self._reread).read()).config

    async def run(self, call: Callable[[], Result]) -> Result:
        """Do something with files. Raises ``Unavailable``, and what ``call`` does."""
        return await SlowFiles(call, self._reactor, PATIENCE, "a file of the configuration").read()

    def _slow(self, reread: Reread) -> SlowFiles[LoadedConfig]:
        return SlowFiles(reread, self._reactor, PATIENCE, "the configuration")
