"""Who may call the API, and what is written down of it: made for the admin port, closed with the node."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from iot_mqtt.admin.access_resources import AuditResources, TokenResources
from iot_mqtt.admin.audit import AuditLog
from iot_mqtt.admin.auditing import Auditor
from iot_mqtt.admin.callers import RootToken, Tokens
from iot_mqtt.admin.routes import Resource
from iot_mqtt.admin.token import load_token
from iot_mqtt.app.config.sections import Config
from iot_mqtt.ports.directory import Directory

_FOLDER = "audit"


class AdminAccess:
    """Raises ``OSError`` if the token or the audit log can't be read, and ``ValueError`` if the latter is none."""

    def __init__(self, config: Config, directory: Directory, reactor: Any) -> None:
        data_dir = config.node.data_dir
        self.token = load_token(data_dir)
        self.callers = Tokens(RootToken(self.token), directory, time.time)
        # One thread, so that records are written in the order of the changes.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="iot-mqtt-audit")
        audit = AuditLog(Path(data_dir) / _FOLDER, self._thread, reactor.callFromThread)
        self.auditor = Auditor(audit, config.node.id, time.time)
        self.resources: tuple[Resource, ...] = (TokenResources(self.callers), AuditResources(audit))

    def close(self) -> None:
        """Nothing is changed any more."""
        self._thread.shutdown(wait=False)
