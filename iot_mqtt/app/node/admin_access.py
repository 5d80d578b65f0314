"""Who may call the API, and what is written down of it: made for the admin port, closed with the node."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from iot_mqtt.admin.access_resources import AuditResources, TokenResources
from iot_mqtt.admin.admin_resources import AdminResources
from iot_mqtt.admin.admins import AdminDesk
from iot_mqtt.admin.audit import AuditLog
from iot_mqtt.admin.auditing import Auditor
from iot_mqtt.admin.callers import TOKENS, Role, RootToken, Tokens
from iot_mqtt.admin.cross_site import Hosts
from iot_mqtt.admin.lockout import Lockout
from iot_mqtt.admin.login_resources import Cookie, LoginResources
from iot_mqtt.admin.logins import Logins
from iot_mqtt.admin.routes import Resource
from iot_mqtt.admin.sign_in import SignIn
from iot_mqtt.admin.site import Gate
from iot_mqtt.admin.token import load_token, read_token
from iot_mqtt.app.config.sections import Config
from iot_mqtt.auth.hashing import HashPool
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.directory import ADMINS, Conflict, Directory

log = logging.getLogger(__name__)

_FOLDER = "audit"
#: The user that a first start makes.
FIRST: Final = "admin"


class AdminAccess:
    """Raises ``OSError`` if the token or the audit log can't be read, and ``ValueError`` if the latter is none."""

    def __init__(self, config: Config, directory: Directory, reactor: Any, clock: Clock, pool: HashPool) -> None:
        admin, data_dir = config.admin, config.node.data_dir
        self._directory = directory
        self._first = read_token(data_dir) is None
        self.token = load_token(data_dir)
        # One thread, so that records are written in the order of the changes.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="iot-mqtt-audit")
        self.audit = audit = AuditLog(Path(data_dir) / _FOLDER, self._thread, reactor.callFromThread, admin.audit_bytes)
        auditor = Auditor(audit, config.node.id, clock.wall)
        tokens = Tokens(RootToken(self.token), directory, clock.wall)
        lockout = Lockout()
        self._unwatch = directory.watch(ADMINS, lockout.unlock)
        self._desk = AdminDesk(directory, pool, clock.wall)
        self.logins = Logins(directory, self._desk, clock.wall, idle=admin.login_idle, longest=admin.login_longest)
        self.sign_in = SignIn(self._desk, pool, lockout, auditor, clock.monotonic)
        cookie = Cookie(secure=admin.scheme == "https")
        self.gate = Gate(tokens, auditor, self.logins, cookie, Hosts(admin.hosts, admin.host), admin.metrics)
        self.resources: tuple[Resource, ...] = (
            TokenResources(tokens),
            AuditResources(audit, config.node.id),
            AdminResources(self._desk),
            LoginResources(self.sign_in, self.logins, self._desk, auditor, cookie),
        )

    async def first_password(self) -> str | None:
        """Make the user ``admin`` where nobody could come in before: this start has made the token file, and the grid
        has neither admin users nor tokens. Of nodes that start together one does it. Returns the password, which
        nothing keeps.
        """
        if not self._first or self._directory.of(ADMINS) or self._directory.of(TOKENS):
            return None
        self._first = False
        try:
            return await self._desk.add_random(FIRST, Role.ADMIN)
        except Conflict:
            return None

    def close(self) -> None:
        """Nothing is changed any more."""
        self._unwatch()
        self._thread.shutdown(wait=False)
