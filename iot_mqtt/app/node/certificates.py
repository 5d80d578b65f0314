"""The certificates of a node's ports, and their lists of revoked ones: read again when they change, and missed before
they are over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite

from iot_mqtt.pipeline import TlsConfigurationError, TlsContext
from iot_mqtt.pipeline.certificates import moment
from iot_mqtt.pipeline.revocation_lists import counting, troubles
from iot_mqtt.pipeline.tls_context import TlsLooked
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.clock import Clock

log = logging.getLogger(__name__)

#: Seconds between two looks at the files. A change is seen at the second look at the latest that finds it, so a list of
#: revoked certificates counts within a second.
LOOK_SECONDS = 0.5
#: How often the log says what goes on.
SAY_SECONDS = 86_400.0

#: Has the files looked at now and every so many seconds.
Repeat = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class PortFacts:
    """TLS of one port, for metrics."""

    name: str
    #: Days until each certificate is over, by its file.
    days_left: Mapping[str, float]
    #: Seconds until each list of revoked certificates is over that says so, by its file and its authority.
    lists_left: Mapping[tuple[str, str], float]
    #: Failed handshakes by kind.
    failures: Mapping[str, int]
    #: Its files of now cannot be used, or not yet; those of before still are.
    outdated: bool


class Certificates:
    """TLS of the ports that are open, by the name of the port."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ports: dict[str, TlsContext] = {}
        #: When the log has to say again what is over soon.
        self._say_at = 0.0
        #: What it has said at once.
        self._said: frozenset[Alarm] = frozenset()
        #: What has a call made regularly; None before ``begin``, and once it was told to.
        self._repeat: Repeat | None = None

    def begin(self, repeat: Repeat) -> None:
        """From now on the files are looked at regularly, as soon as there are any."""
        self._repeat = repeat
        self._look_regularly()

    def add(self, name: str, context: TlsContext | None) -> None:
        """A port was opened."""
        if context is not None:
            self._ports[name] = context
            self._look_regularly()

    def remove(self, name: str) -> None:
        """A port was closed."""
        self._ports.pop(name, None)

    def look(self, *, changed_only: bool) -> Callable[[], None]:
        """What all files say now, in any thread; with ``changed_only`` those that changed are read.

        What it returns takes that into use, in the reactor's thread; files that cannot be used change nothing but the
        log.
        """
        found = [(name, context, context.look(changed_only=changed_only)) for name, context in [*self._ports.items()]]
        return partial(self._take, found, all_of_them=not changed_only)

    def _take(self, found: list[tuple[str, TlsContext, TlsLooked]], *, all_of_them: bool) -> None:
        """And once a day say what is over soon; at once what waits, and of a list, which may live hours."""
        for name, context, looked in found:
            self._renew(name, context, looked)
        if all_of_them:
            self._say_at = 0.0
        at_once = (*self._waiting(), *self._lists_ending())
        said: Iterable[Alarm] = (one for one in at_once if one not in self._said)
        if self._clock.monotonic() >= self._say_at:
            self._say_at = self._clock.monotonic() + SAY_SECONDS
            said = (*self._ending(), *at_once)
        for alarm in said:
            log.warning("%s", alarm.text)
        self._said = frozenset(at_once)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator should do something about."""
        text = "listener {} goes on with its certificates of before: the files of now cannot be used"
        outdated = (
            Alarm(AlarmKind.CERTIFICATE, text.format(name)) for name, context in self._ports.items() if context.outdated
        )
        return (*self._ending(), *self._waiting(), *self._lists_ending(), *outdated)

    def facts(self) -> list[PortFacts]:
        """For metrics."""
        now = self._clock.wall()
        return [
            PortFacts(
                name,
                {one.path: one.days_left(now) for one in tls.certificates},
                {
                    (one.path, one.authority): one.ends - now
                    for one in counting(tls.revocation_lists, now)
                    if isfinite(one.ends)
                },
                dict(tls.failures),
                tls.outdated or bool(tls.waiting(now)),
            )
            for name, tls in self._ports.items()
        ]

    def _look_regularly(self) -> None:
        repeat = self._repeat
        if self._ports and repeat is not None:
            self._repeat = None
            repeat(LOOK_SECONDS)

    def _renew(self, name: str, context: TlsContext, looked: TlsLooked) -> None:
        # The end of what was an error is a warning.
        level = logging.WARNING if context.outdated else logging.INFO
        try:
            if context.take(looked, self._clock.wall()):
                log.log(level, "the certificates of listener %s were read again", name)
                self._say_at = 0.0
        except TlsConfigurationError as error:
            log.error("the certificate of listener %s was not read again, the old one stays: %s", name, error)

    def _ending(self) -> Iterator[Alarm]:
        now = self._clock.wall()
        for name, context in self._ports.items():
            for one in context.certificates:
                if (trouble := one.trouble(now)) is not None:
                    yield Alarm(AlarmKind.CERTIFICATE, f"listener {name}: the certificate {one.path} {trouble}")

    def _waiting(self) -> Iterator[Alarm]:
        for name, context in self._ports.items():
            for one in context.waiting(self._clock.wall()):
                begins = moment(one.not_before)
                text = (
                    f"listener {name}: the new certificate {one.path} is not valid before {begins}: "
                    "the one of before serves until then"
                )
                yield Alarm(AlarmKind.CERTIFICATE, text)

    def _lists_ending(self) -> Iterator[Alarm]:
        now = self._clock.wall()
        for name, context in self._ports.items():
            for trouble in troubles(context.revocation_lists, now):
                yield Alarm(AlarmKind.REVOCATION_LIST, f"listener {name}: {trouble}")
