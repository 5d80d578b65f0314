"""What an operator is told of the uplink: figures, and in words what needs somebody."""

from __future__ import annotations

from iot_mqtt.broker.losses import text_of
from iot_mqtt.broker.uplink.growth import BacklogGrowth
from iot_mqtt.broker.uplink.holding import Holding
from iot_mqtt.broker.uplink.ledger import Ledger
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.clock import Clock, Timer, until_beat
from iot_mqtt.ports.log import CommittedLog
from iot_mqtt.ports.status import UplinkInfo
from iot_mqtt.ports.uplink import Sink

#: Between two looks at how the backlog grows.
WATCH_SECONDS = 1.0
#: An alarm about lost messages stands for so long.
LOST_SECONDS = 3600.0


class Watch:
    """Of one uplink, from ``begin`` to ``end``."""

    def __init__(self, ledger: Ledger, sink: Sink, holding: Holding | None, log: CommittedLog, clock: Clock) -> None:
        self._ledger = ledger
        self._sink = sink
        self._holding = holding
        self._log = log
        self._clock = clock
        self._growth = BacklogGrowth()
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Look at the backlog, now and every second."""
        self._ledger.bring_up_to_date()
        self._growth.look(self._backlog, self._ledger.place.recorded)
        self._timer = self._clock.call_later(until_beat(self._clock.monotonic(), WATCH_SECONDS), self.begin)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _backlog(self) -> int:
        """Messages that wait, for the sink or in it."""
        ledger = self._ledger
        return ledger.unread if self._sink.gathers else ledger.unread + ledger.unsafe_messages

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator has to know."""
        ledger, sink, holding = self._ledger, self._sink, self._holding
        found = []
        if sink.trouble is not None:
            waiting = f"{ledger.unread + ledger.unsafe_messages} wait in the log"
            if holding is not None and holding.connections:
                waiting += f", and {holding.connections} publishers for their acknowledgements"
            kind = AlarmKind.UPLINK_ROOM if sink.lacks_room else AlarmKind.UPLINK_TROUBLE
            found.append(Alarm(kind, f"the uplink does not take messages: {sink.trouble}; {waiting}", sink.trouble))
        elif self._growth.growing:
            text = f"the uplink falls behind: {self._backlog} messages wait in the log, and more every second"
            found.append(Alarm(AlarmKind.UPLINK_BEHIND, text))
        if ledger.lost_at is not None and self._clock.monotonic() - ledger.lost_at < LOST_SECONDS:
            text = f"the uplink has lost {ledger.lost} messages: {text_of(ledger.causes)} before they were taken"
            found.append(Alarm(AlarmKind.UPLINK_LOST, text))
        if sink.dropped:
            text = f"the platform has rejected {sink.dropped} records that could not be put among its dead letters"
            found.append(Alarm(AlarmKind.UPLINK_REJECTED, text))
        return (*found, *(Alarm(AlarmKind.OTHER, note) for note in sink.notes))

    def info(self) -> UplinkInfo:
        """Figures."""
        ledger, sink = self._ledger, self._sink
        ledger.bring_up_to_date()
        place, since = ledger.place, ledger.waiting_since
        alarms = tuple(one.text for one in self.alarms)
        return UplinkInfo(
            kind=sink.kind,
            state="alarm" if alarms else "ok",
            alarms=alarms,
            trouble=sink.trouble,
            spool=place.spool,
            position=place.position,
            end=self._log.end,
            lag_messages=max(0, place.recorded - place.taken),
            lag_bytes=max(0, place.recorded_bytes - place.taken_bytes),
            lag_seconds=max(0.0, self._clock.wall() - since) if since is not None else 0.0,
            unread_messages=ledger.unread,
            in_flight_messages=ledger.unsafe_messages,
            recorded=place.recorded,
            sent=ledger.sent,
            sent_bytes=ledger.sent_bytes,
            safe=ledger.safe,
            failures=ledger.failures,
            lost=ledger.lost,
            dead=sink.dead,
            dropped=sink.dropped,
            rejected=tuple(sink.rejected),
        )
