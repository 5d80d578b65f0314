"""One version of a plugin at work: opening connections on it, counting them, and being done with it."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from iot_mqtt.plugins.calling import Calling
from iot_mqtt.plugins.conduct import Conduct
from iot_mqtt.plugins.inline import InlineRunner
from iot_mqtt.plugins.loading import Loaded, load_beside
from iot_mqtt.plugins.place import Place
from iot_mqtt.plugins.running import Clock, NotAvailable, Opened, Sink
from iot_mqtt.plugins.settings import Limits
from iot_mqtt.plugins.suspects import Peer
from iot_mqtt.plugins.telling import Counts, Quiet, logger_of
from iot_mqtt.sdk import Schema
from iot_mqtt.sdk.checking import Checker
from iot_mqtt.sdk.fitting import DoesNotFit


class Common(NamedTuple):
    """What the versions of a plugin share."""

    name: str
    config: Mapping[str, object]
    limits: Limits
    sandbox: str
    clock: Clock
    counts: Counts
    #: What is said of it, and what it says itself.
    quiet: Quiet
    output: Quiet
    #: The last connection of a retired version is gone.
    over: Callable[[Version], None]
    #: Called with a fault's kind, of any version.
    faulty: Callable[[str], None]
    #: Called with the reason why a connection was not let in, after it was opened.
    turned_away: Callable[[str], None]


class Version(ABC):
    """Made, started once, retired once."""

    def __init__(self, place: Place, common: Common) -> None:
        self.place = place
        self._common = common
        self._refused: str | None = None
        #: By runner.
        self._opened: dict[Any, Opened] = {}
        self._retired = False
        #: Of its sandbox: what is not enforced, and why.
        self.unconfined: dict[str, str] = {}
        self.conduct = Conduct(common.limits, common.clock.seconds, self._quarantined, self._held)

    @property
    def state(self) -> str:
        """One of "starting", "ready", "restarting", "quarantined" and "refused"."""
        if self._refused is not None:
            return "refused"
        return "quarantined" if self.conduct.remaining else self._at_work()

    @property
    def reason(self) -> str | None:
        if self._refused is not None:
            return self._refused
        return self.conduct.reason if self.conduct.remaining else self._trouble()

    @property
    def connections(self) -> list[Opened]:
        return list(self._opened.values())

    @property
    @abstractmethod
    def version(self) -> str: ...

    @property
    @abstractmethod
    def schema(self) -> Schema | None:
        """None: it was never loaded."""

    @abstractmethod
    def start(self, then: Callable[[str | None], None]) -> None:
        """``then`` is called once: with None when it takes connections, else with the reason why not."""

    def open(self, peer: str, sink: Sink) -> Opened:
        """Raises ``NotAvailable``."""
        name = self._common.name
        if self._refused is not None:
            raise NotAvailable("refused", f"{name} is not loaded: {self._refused}")
        self.conduct.check(name, peer)
        opened = self._open(peer, sink)
        self._opened[opened.runner] = opened
        return opened

    def retire(self) -> None:
        """It gets no more connections."""
        self._retired = True
        self._end_if_done()

    @abstractmethod
    def stop(self) -> None:
        """At once, whoever is on it."""

    # Told of runners: ``inline.Judge``, ``worker.Owner``.

    def failed(self, runner: Peer, kind: str, detail: str) -> bool:
        """An exception or garbage; whether its gateway is held off for that."""
        self._say_failed(runner, kind, detail)
        return self.conduct.light(kind, detail, runner.suspect)

    def failed_to_encode(self, runner: Peer, kind: str, detail: str) -> None:
        """Likewise, over a command: whoever sent that cannot have its gateway held off."""
        self._say_failed(runner, kind, detail)
        self.conduct.note(kind, detail)

    def admits(self, runner: Peer) -> bool:
        """Whether the gateway that logs in is not held off now; if it is, it is counted as turned away."""
        try:
            self.conduct.check_device(self._common.name, runner.gateway)
        except NotAvailable as error:
            self._common.turned_away(error.reason)
            return False
        return True

    def closed(self, runner: Peer) -> None:
        self._opened.pop(runner, None)
        self._end_if_done()

    # Inside.

    def _say_failed(self, runner: Peer, kind: str, detail: str) -> None:
        self._common.faulty(kind)
        self._common.quiet.say(
            logging.WARNING, "%s of codec %s, gateway %s: %s", kind, self.place.label, runner.peer, detail
        )

    def _at_work(self) -> str:
        """The state of one that is neither refused nor in quarantine."""
        return "ready"

    def _trouble(self) -> str | None:
        return None

    @abstractmethod
    def _open(self, peer: str, sink: Sink) -> Opened: ...

    def _held(self, text: str) -> None:
        self._common.quiet.say(logging.WARNING, "%s", text)

    def _quarantined(self) -> None:
        self._common.faulty("quarantined")
        self._common.quiet.say(logging.ERROR, "quarantine: %s", self.conduct.reason)
        self._keep_from_work()

    @abstractmethod
    def _keep_from_work(self) -> None:
        """A quarantine begins."""

    def _end_if_done(self) -> None:
        if self._retired and not self._opened and self._end():
            self._common.over(self)

    @abstractmethod
    def _end(self) -> bool:
        """Nobody is on it any more, nor will be. False: it has ended before."""


class InlineVersion(Version):
    """A version in this process."""

    _loaded: Loaded | None = None

    def __init__(self, place: Place, common: Common) -> None:
        super().__init__(place, common)
        if not place.bundled:
            self.unconfined = {"all": "isolation: inline, so it has the broker's rights"}

    @property
    def version(self) -> str:
        return self.place.version if self._loaded is None else self._loaded.version

    @property
    def schema(self) -> Schema | None:
        return None if self._loaded is None else self._loaded.codec.schema

    def start(self, then: Callable[[str | None], None]) -> None:
        try:
            self._loaded = load_beside(self.place, self._common.config)
            self._checker = Checker(self._loaded.codec.schema)
        except DoesNotFit as error:
            self._refused = str(error)
        then(self._refused)

    def _at_work(self) -> str:
        return "refused" if self._loaded is None else "ready"

    def _open(self, peer: str, sink: Sink) -> Opened:
        common, loaded = self._common, self._loaded
        if loaded is None:
            raise NotAvailable("refused", f"{common.name} is not loaded any more")
        calling = Calling(
            loaded.codec,
            loaded.config,
            self._checker,
            peer=peer,
            log=logger_of(common.name),
            count=common.counts.count,
        )
        runner = InlineRunner(calling, sink, self, peer=peer, slow=common.limits.slow_frame, now=common.clock.seconds)
        codec = loaded.codec
        return Opened(runner, codec.framing, common.name, loaded.version, codec.schema.version, answers=codec.answers)

    def stop(self) -> None:
        for runner in list(self._opened):
            runner.close()
        self.retire()

    def took(self, runner: InlineRunner, seconds: float, frames: int) -> None:
        """A call was slow enough to be looked at."""
        limits = self._common.limits
        if seconds <= limits.slow_frame * max(1, frames) and seconds < limits.slow_call:
            return
        self.conduct.took(seconds, stalled=seconds >= limits.stall)
        held = self.failed(runner, "slow", f"{seconds:.2f} s for {frames} frames")
        if seconds >= limits.slow_call:
            self.conduct.condemn(f"one call took {seconds:.1f} s, in which the node did nothing else")
        if held:
            runner.abort("slow")

    def _keep_from_work(self) -> None:
        for runner in list(self._opened):
            runner.abort("quarantined")

    def _end(self) -> bool:
        loaded, self._loaded = self._loaded, None
        if loaded is not None and loaded.space is not None:
            loaded.space.release()
        return loaded is not None
