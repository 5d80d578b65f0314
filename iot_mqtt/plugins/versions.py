"""One version of a plugin at work: opening connections on it, counting them, and being done with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from iot_mqtt.plugins.calling import Calling
from iot_mqtt.plugins.conduct import Conduct
from iot_mqtt.plugins.inline import InlineRunner
from iot_mqtt.plugins.loading import Loaded, load_beside
from iot_mqtt.plugins.place import Place
from iot_mqtt.plugins.process.worker import Clock
from iot_mqtt.plugins.running import NotAvailable, Opened, Runner, Sink
from iot_mqtt.plugins.settings import Limits
from iot_mqtt.plugins.telling import Counts, Quiet, logger_of
from iot_mqtt.sdk import Schema
from iot_mqtt.sdk.checking import Checker
from iot_mqtt.sdk.fitting import DoesNotFit


class Common(NamedTuple):
    """What the versions of a plugin share."""

    name: str
    config: Mapping[str, object]
    limits: Limits
    clock: Clock
    counts: Counts
    quiet: Quiet
    #: The last connection of a retired version is gone.
    over: Callable[[Version], None]
    #: Called with a fault's kind, of any version.
    faulty: Callable[[str], None]
    #: Called with the reason why a connection was not let in, after it was opened.
    turned_away: Callable[[str], None]

    @classmethod
    def of(
        cls,
        name: str,
        config: Mapping[str, object],
        limits: Limits,
        clock: Clock,
        over: Callable[[Version], None],
        faulty: Callable[[str], None],
        turned_away: Callable[[str], None],
    ) -> Common:
        quiet = Quiet(logger_of(name), clock.seconds)
        return cls(name, config, limits, clock, Counts(), quiet, over, faulty, turned_away)

    def admits(self, conduct: Conduct, device: str) -> bool:
        """Whether a device is not held off now; if it is, it is counted as turned away."""
        try:
            conduct.check_device(self.name, device)
        except NotAvailable as error:
            self.turned_away(error.reason)
            return False
        return True


class Version(Protocol):
    """Made, started once, retired once."""

    place: Place

    #: "starting", "ready", "restarting", "quarantined", "refused".
    @property
    def state(self) -> str: ...

    @property
    def reason(self) -> str | None: ...

    @property
    def conduct(self) -> Conduct: ...

    @property
    def version(self) -> str: ...

    @property
    def schema(self) -> Schema | None:
        """None: it was never loaded."""
        ...

    @property
    def connections(self) -> list[Opened]: ...

    def start(self, then: Callable[[str | None], None]) -> None:
        """``then`` is called once: with None when it takes connections, else with the reason why not."""
        ...

    def open(self, peer: str, sink: Sink) -> Opened:
        """Raises ``NotAvailable``."""
        ...

    def retire(self) -> None:
        """It gets no more connections."""
        ...

    def stop(self) -> None:
        """At once, whoever is on it."""
        ...


class InlineVersion:
    """A version in this process."""

    def __init__(self, place: Place, common: Common) -> None:
        self.place = place
        self._common = common
        self._checker = Checker()
        self._loaded: Loaded | None = None
        self._reason: str | None = None
        self._opened: dict[Runner, Opened] = {}
        self._retired = False
        self.conduct = Conduct(common.limits, common.clock.seconds, self._quarantined, self._held)

    @property
    def state(self) -> str:
        if self._loaded is None:
            return "refused"
        return "quarantined" if self.conduct.remaining else "ready"

    @property
    def reason(self) -> str | None:
        return self._reason or (self.conduct.reason if self.conduct.remaining else None)

    @property
    def version(self) -> str:
        return self.place.version if self._loaded is None else self._loaded.version

    @property
    def schema(self) -> Schema | None:
        return None if self._loaded is None else self._loaded.codec.schema

    @property
    def connections(self) -> list[Opened]:
        return list(self._opened.values())

    def start(self, then: Callable[[str | None], None]) -> None:
        try:
            self._loaded = load_beside(self.place, self._common.config)
            self._checker = Checker(self._loaded.codec.schema)
        except DoesNotFit as error:
            self._reason = str(error)
        then(self._reason)

    def open(self, peer: str, sink: Sink) -> Opened:
        common, loaded = self._common, self._loaded
        if loaded is None:
            raise NotAvailable("refused", f"{common.name} is not loaded: {self._reason}")
        self.conduct.check(common.name, peer)
        calling = Calling(
            loaded.codec,
            loaded.config,
            self._checker,
            peer=peer,
            log=logger_of(common.name),
            count=common.counts.count,
        )
        runner = InlineRunner(calling, sink, self, peer=peer, slow=common.limits.slow_frame, now=common.clock.seconds)
        opened = Opened(runner, loaded.codec.framing, common.name, loaded.version, loaded.codec.schema.version)
        self._opened[runner] = opened
        return opened

    def retire(self) -> None:
        self._retired = True
        self._end_if_done()

    def stop(self) -> None:
        for runner in list(self._opened):
            runner.close()
        self.retire()

    # ``inline.Judge``.

    def failed(self, runner: InlineRunner, kind: str, detail: str) -> None:
        self._say(kind, detail, runner.peer)
        self.conduct.light(kind, detail, runner.suspect)

    def admits(self, runner: InlineRunner) -> bool:
        return self._common.admits(self.conduct, runner.gateway)

    def took(self, runner: InlineRunner, seconds: float, frames: int) -> None:
        limits = self._common.limits
        if seconds <= limits.slow_frame * max(1, frames) and seconds < limits.slow_call:
            return
        detail = f"{seconds:.2f} s for {frames} frames"
        self.conduct.took(seconds, stalled=seconds >= limits.stall)
        self._say("slow", detail, runner.peer)
        held = self.conduct.light("slow", detail, runner.suspect)
        if seconds >= limits.slow_call:
            self.conduct.condemn(f"one call took {seconds:.1f} s, in which the node did nothing else")
        if held:
            runner.abort("slow")

    def closed(self, runner: InlineRunner) -> None:
        self._opened.pop(runner, None)
        self._end_if_done()

    def _say(self, kind: str, detail: str, peer: str) -> None:
        self._common.faulty(kind)
        self._common.quiet.say(logging.WARNING, "%s of codec %s, gateway %s: %s", kind, self.place.label, peer, detail)

    def _held(self, text: str) -> None:
        self._common.quiet.say(logging.WARNING, "%s", text)

    def _quarantined(self) -> None:
        self._common.faulty("quarantined")
        self._common.quiet.say(logging.ERROR, "quarantine: %s", self.conduct.reason)
        for runner in list(self._opened):
            if isinstance(runner, InlineRunner):
                runner.abort("quarantined")

    def _end_if_done(self) -> None:
        loaded = self._loaded
        if self._retired and not self._opened and loaded is not None:
            self._loaded = None
            if loaded.space is not None:
                loaded.space.release()
            self._common.over(self)
