"""The files of a node's configuration while it runs: read again and written in a thread, for they may be slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from iot_mqtt.app.config.reading import LoadedConfig, Reread
from iot_mqtt.app.config.sections import Config
from iot_mqtt.app.node.configuration import Read
from iot_mqtt.app.slow_files import SlowFiles

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
