"""The consumer of commands, in a thread of its own: everything that may wait for Kafka happens here.

One ``life`` follows the other, a little later. The group knows the member by the node's id, not by a life: a node that
is back within ``SESSION_SECONDS`` gets its partitions at once, and nobody else's stand still.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import partial

from confluent_kafka import KafkaException

from iot_mqtt.ports.inbox import InboxFacts, Letter
from iot_mqtt.thread_bridge import Job, ThreadBridge, run_jobs
from iot_mqtt.uplink.inbox.burying import Burying
from iot_mqtt.uplink.inbox.crossing import Crossing, Owner
from iot_mqtt.uplink.inbox.health import Health
from iot_mqtt.uplink.inbox.identity import TopicIdentity
from iot_mqtt.uplink.inbox.life import POLL_SECONDS, Life
from iot_mqtt.uplink.inbox.positions import Positions, text_of
from iot_mqtt.uplink.inbox.settings import InboxSettings

log = logging.getLogger(__name__)

#: Seconds until another life begins.
REST_SECONDS = 2.0


class Consuming:
    """``run`` is the thread. The other public methods are jobs: they are called in it, too."""

    def __init__(
        self,
        settings: InboxSettings,
        bridge: ThreadBridge[Job],
        owner: Owner,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._bridge = bridge
        self._owner = owner
        self._monotonic = monotonic
        self._wall = wall
        self._burying = Burying(settings)
        self._crossing = Crossing(bridge, owner)
        self._health = Health(settings.topic, settings.group, monotonic())
        self._identity = TopicIdentity(settings, monotonic)
        self._life: Life | None = None
        self._held = self._ending = self._silent = False
        #: Of the lives before this one.
        self._commits = self._restarts = 0

    # Jobs.

    def settled(self, partition: int, position: int) -> None:
        if self._life is not None:
            self._life.positions.settled(partition, position)

    def hold(self, consumer_waits: bool) -> None:
        self._held = consumer_waits
        if self._life is not None:
            self._life.hold(consumer_waits)

    def bury(self, letter: Letter, reason: str, done: Callable[[Exception | None], None]) -> None:
        self._burying.bury(letter, reason, lambda error: self._bridge.hand(partial(done, error)))

    def end(self, silent: bool) -> None:
        """``silent``: keep nothing more, ask nobody."""
        self._ending, self._silent = True, silent
        if self._life is not None:
            self._life.end(silent)

    # The thread.

    def run(self) -> None:
        while not self._ending:
            broken = self._live()
            if not self._ending:
                self._restarts += 1
                if broken is not None:
                    log.error("commands from Kafka: %s; trying again", broken)
                    self._health.member = broken
            self._tell()
            self._rest(REST_SECONDS)
        if not self._silent:
            self._burying.end(1.0)
        self._bridge.hand(self._owner.ended)

    def _live(self) -> str | None:
        """One life, and why it could not go on."""
        self._health.began(self._monotonic())
        try:
            life = self._life = Life(
                self._settings,
                self._bridge,
                self._owner,
                self._crossing,
                self._health,
                Positions(self._settings, self._health, self._identity, self._monotonic, self._wall),
                self._monotonic,
                self._tell,
            )
            try:
                life.begin(held=self._held)
                while not self._ending and life.broken is None:
                    self._turn(life)
            finally:
                try:
                    life.close()
                finally:
                    self._life = None
                    self._commits += life.positions.commits
        except KafkaException as error:
            return text_of(error)
        except Exception as error:  # the thread must not end by a fault of ours
            log.exception("reading commands from Kafka failed")
            return repr(error)
        except:  # noqa: E722 - nor by a ``KafkaError`` out of a callback, which is no exception and has no traceback
            return repr(sys.exc_info()[1])
        return life.broken

    def _turn(self, life: Life) -> None:
        run_jobs(self._bridge, POLL_SECONDS if self._crossing.waiting else 0.0)
        self._burying.serve()
        life.turn()

    def _rest(self, seconds: float) -> None:
        """Do nothing but jobs."""
        until = self._monotonic() + seconds
        while not self._ending and (left := until - self._monotonic()) > 0:
            run_jobs(self._bridge, min(left, POLL_SECONDS))
            self._burying.serve()

    def _tell(self) -> None:
        health, here = self._health, None if self._life is None else self._life.positions
        facts = InboxFacts(
            topic=self._settings.topic,
            group=self._settings.group,
            joined=health.joined,
            partitions=() if here is None else tuple(sorted(here.begins)),
            lag=health.lag,
            commits=self._commits + (0 if here is None else here.commits),
            restarts=self._restarts,
        )
        self._bridge.hand(partial(self._owner.heard, health.trouble(self._monotonic()), facts))
