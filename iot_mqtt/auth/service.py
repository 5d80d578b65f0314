"""Authentication and rights as configured: what ``app`` makes once, hands to the broker and closes at the end."""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt.auth.acl import Rules, parse_rules
from iot_mqtt.auth.chain import AnonymousStep, CertificateStep, Chain, PasswordStep, Step
from iot_mqtt.auth.fair_queue import Allowance
from iot_mqtt.auth.files import FileError, WatchedFile
from iot_mqtt.auth.hashing import Crossing, HashPool
from iot_mqtt.auth.rights import FileAuthorizer
from iot_mqtt.auth.settings import AuthSettings
from iot_mqtt.auth.users import Users, parse_users
from iot_mqtt.auth.verdicts import Verifier
from iot_mqtt.ports.clock import Clock


class FileAuthenticator(Chain):
    """Certificate, then password, then anonymous: each step only where the settings ask for it."""

    def __init__(self, settings: AuthSettings, users: WatchedFile[Users] | None, verifier: Verifier) -> None:
        steps: list[Step] = []
        if settings.certificate_as_user:
            steps.append(CertificateStep(users))
        if users is not None:
            steps.append(PasswordStep(users, verifier))
        if settings.allow_anonymous:
            steps.append(AnonymousStep(any_name=users is None))
        super().__init__(steps)


class Access:
    """Both files and what stands on them. Making it raises ``FileError`` if a file is missing or wrong.

    ``crossing`` runs a call in the reactor's thread (``reactor.callFromThread``). All methods belong there.
    """

    def __init__(self, settings: AuthSettings, crossing: Crossing, clock: Clock) -> None:
        self._users = WatchedFile(settings.users_file, parse_users) if settings.users_file else None
        self._rules: WatchedFile[Rules] | None = (
            WatchedFile(settings.acl_file, parse_rules) if settings.acl_file else None
        )
        self._pool = HashPool(
            crossing,
            clock,
            threads=settings.hash_threads,
            queue=settings.hash_queue,
            allowance=Allowance(settings.guess_burst, settings.guess_seconds),
        )
        self._verifier = Verifier(
            self._pool, clock.monotonic, seconds=settings.verdict_cache_seconds, size=settings.verdict_cache_size
        )
        self.authenticator = FileAuthenticator(settings, self._users, self._verifier)
        self.authorizer = FileAuthorizer(self._rules, self._may_come)
        self._settings = settings
        #: Called after a file changed, with the users who may not come in any more.
        self.on_changed: Callable[[frozenset[str]], None] = _nobody_listens

    def reload(self) -> list[FileError]:
        """Read both files again. A file that is wrong keeps what it said before; its error is returned."""
        self._verifier.forget()
        return self._renew(changed_only=False)

    def reload_if_changed(self) -> list[FileError]:
        """Like ``reload`` for the files that changed since last time; costs two ``stat`` calls when none did."""
        return self._renew(changed_only=True)

    def close(self) -> None:
        """Stop the threads; clients that wait for a verdict are told to come back."""
        self._pool.close()

    def _may_come(self, owner: str) -> bool:
        """Whether somebody of this identity could be let in now."""
        if not owner:
            return self._settings.allow_anonymous
        if self._users is None or owner in self._users.content:
            return True
        return self._settings.certificate_as_user and not self._users.content.is_disabled(owner)

    def _renew(self, *, changed_only: bool) -> list[FileError]:
        before = self._rules and self._rules.content
        knew = None if self._users is None else self._users.content
        errors = []
        for file in (self._users, self._rules):
            try:
                if file is not None:
                    file.reload_if_changed() if changed_only else file.reload()
            except FileError as error:
                errors.append(error)
        if self._rules and self._rules.content is not before:
            self.authorizer.renew()
        know = None if self._users is None else self._users.content
        gone = knew.gone_in(know) if knew is not None and know is not None else frozenset()
        if know is not knew or (self._rules and self._rules.content) is not before:
            self.on_changed(gone)
        return errors


def _nobody_listens(_: frozenset[str]) -> None:
    """Until there is a broker."""
