"""``/metrics``: every counter, every figure, in the form that Prometheus reads."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from iot_mqtt.metrics.exposition import Metrics
from iot_mqtt.metrics.loop_lag import LoopLag
from iot_mqtt.ports.counters import FIGURES, Counters, Drop, Histogram
from iot_mqtt.ports.recent import Recent
from tests.unit.metrics.metricskit import Counts, Facts, HandClock, Listener, RoomFacts

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(metrics: Metrics) -> Samples:
    """What Prometheus would keep."""
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_every_counter_is_exposed() -> None:
    """A counter that is added to ``Counters`` and forgotten here fails this test."""
    counters = Counters()
    figures = {name: getattr(counters, name) for name in FIGURES}
    figures["packets_sent"] = counters.others_sent
    counted = {name: value for name, value in figures.items() if not isinstance(value, Recent)}
    for place, (name, value) in enumerate(counted.items(), 101):
        if isinstance(value, Histogram):
            value.observe(place)
        elif isinstance(value, dict):
            value["label"] += place
        else:
            setattr(counters, name, place)
    shown = set(scrape(Metrics(counters, Facts)).values())
    assert [name for place, name in enumerate(counted, 101) if place not in shown] == []


def test_every_figure_is_exposed() -> None:
    """Clients, sessions, what waits and what is kept."""
    samples = scrape(Metrics(Counters(), Facts))
    names = ("clients", "sessions", "subscriptions", "retained_messages", "retained_bytes")
    assert [samples[f"iot_mqtt_{name}", ()] for name in names] == [2, 5, 7, 11, 13]
    assert samples["iot_mqtt_ready", ()] == 1


def test_what_waits_is_exposed() -> None:
    """In all, in the log, for the session with most of it, and who is held off."""
    samples = scrape(Metrics(Counters(), Facts))
    names = ("queued_messages", "messages_waiting", "backlog_messages", "backlog_uncounted", "connections_paused")
    assert [samples[f"iot_mqtt_{name}", ()] for name in names] == [17, 23, 29, 31, 43]
    assert samples["iot_mqtt_backlog_largest_messages", ()] == 37
    assert samples["iot_mqtt_backlog_furthest_batches", ()] == 41


def test_every_figure_of_the_log_is_exposed() -> None:
    """What it holds, what it did, and the room for it."""
    shown = set(scrape(Metrics(Counters(), Facts, log=RoomFacts)).values())
    facts = vars(RoomFacts())
    assert [name for name, value in facts.items() if isinstance(value, int) and value not in shown] == []


@pytest.mark.parametrize(("level", "value"), [("none", 0), ("alarm", 1), ("full", 2)])
def test_the_disk_alarm_is_a_number(level: str, value: int) -> None:
    """Alert at 1, page somebody at 2."""
    samples = scrape(Metrics(Counters(), Facts, log=lambda: RoomFacts(disk_level=level, trouble="no space")))
    assert samples["iot_mqtt_disk_alarm", ()] == value
    assert samples["iot_mqtt_grid_failing", ()] == 1


def test_commit_latency_is_a_histogram() -> None:
    """Batches by how long they took; a bound itself belongs to its bucket."""
    counters = Counters()
    for seconds in (0.0001, 0.001, 0.004, 60.0):
        counters.commit_latency.observe(seconds)
    samples = scrape(Metrics(counters, Facts))
    name = "iot_mqtt_grid_commit_latency_seconds"
    buckets = [samples[f"{name}_bucket", (("le", le),)] for le in ("0.0005", "0.001", "0.005", "5.0", "+Inf")]
    assert buckets == [1, 2, 3, 3, 4]
    assert round(samples[f"{name}_sum", ()], 4) == 60.0051


def test_the_names_are_ours_or_the_process() -> None:
    """Nothing clashes with other exporters."""
    samples = scrape(Metrics(Counters(), Facts))
    assert {name.split("_")[0] for name, _ in samples} == {"iot", "process"}
    assert all(name.startswith(("iot_mqtt_", "process_")) for name, _ in samples)


def test_drops_carry_their_reason() -> None:
    """Nothing is dropped without a counter that says why."""
    counters = Counters()
    counters.dropped[Drop.QUEUE_FULL] += 4
    assert scrape(Metrics(counters, Facts))["iot_mqtt_messages_dropped_total", (("reason", "queue_full"),)] == 4


def test_drops_of_each_reason_are_there_before_the_first() -> None:
    """Else Prometheus would not see a series grow that begins with its first loss."""
    found = scrape(Metrics(Counters(), Facts))
    name = "iot_mqtt_messages_dropped_total"
    assert {key: value for key, value in found.items() if key[0] == name} == {
        (name, (("reason", reason),)): 0 for reason in Drop
    }


def test_a_scrape_shows_the_counters_as_they_are_then() -> None:
    """Nothing is copied at construction."""
    counters = Counters()
    metrics = Metrics(counters, Facts)
    counters.messages_received = 5
    assert scrape(metrics)["iot_mqtt_messages_received_total", ()] == 5


def test_node_version_and_number_are_labels() -> None:
    """So that a dashboard sees which version runs where, and whose number that of a peer is."""
    assert (
        scrape(Metrics(Counters(), Facts))["iot_mqtt_info", (("node", "n1"), ("number", "1"), ("version", "1.2"))] == 1
    )


def test_listeners_are_told_apart() -> None:
    """Connections by port, those refused too."""
    listeners = [Listener("mqtt", Counts(3, 1, 2)), Listener("ws", Counts(0, 0, 0))]
    samples = scrape(Metrics(Counters(), Facts, listeners=lambda: listeners))
    assert samples["iot_mqtt_listener_refused_total", (("listener", "mqtt"),)] == 1
    assert samples["iot_mqtt_listener_refusals_total", (("listener", "mqtt"), ("reason", "banned"))] == 1
    assert samples["iot_mqtt_listener_connections", (("listener", "ws"),)] == 0


def test_two_nodes_in_one_process_keep_their_own() -> None:
    """Nothing is registered globally."""
    first, second = Counters(), Counters()
    one, other = Metrics(first, Facts), Metrics(second, Facts)
    first.bytes_sent = 9
    assert scrape(one)["iot_mqtt_sent_bytes_total", ()] == 9
    assert scrape(other)["iot_mqtt_sent_bytes_total", ()] == 0


def test_hostile_label_values_are_escaped() -> None:
    """A reason is text like any other."""
    counters = Counters()
    counters.errors['a"b\\c\nd'] += 1
    assert scrape(Metrics(counters, Facts))["iot_mqtt_protocol_errors_total", (("reason", 'a"b\\c\nd'),)] == 1


def test_loop_lag_is_a_histogram() -> None:
    """Samples fall into buckets by how late they were; the sum is their total."""
    clock = HandClock()
    lag = LoopLag(clock, interval=1.0)
    for seconds in (0.0, 0.002, 0.03, 99.0):
        lag.observe(seconds)
    samples = scrape(Metrics(Counters(), Facts, lag=lag))
    buckets = [samples["iot_mqtt_loop_lag_seconds_bucket", (("le", le),)] for le in ("0.001", "0.0025", "0.05", "+Inf")]
    assert buckets == [1, 2, 3, 4]
    assert samples["iot_mqtt_loop_lag_seconds_count", ()] == 4
    assert round(samples["iot_mqtt_loop_lag_seconds_sum", ()], 3) == 99.032


def test_a_timer_that_was_served_late_is_measured() -> None:
    """Half a second over what was due is half a second of lag; the next is due at a full second again."""
    clock = HandClock()
    lag = LoopLag(clock, interval=1.0)
    lag.start()
    clock.turn(1.5)
    assert lag.latest == 0.5
    clock.turn(0.5)
    assert lag.latest == 0.0


def test_a_stopped_meter_measures_no_more() -> None:
    """Its timer is gone with it."""
    clock = HandClock()
    lag = LoopLag(clock, interval=1.0)
    lag.start()
    lag.stop()
    clock.turn(5.0)
    assert sum(lag.counts) == 0


def test_a_clock_that_steps_back_is_no_lag() -> None:
    """Never negative."""
    clock = HandClock()
    lag = LoopLag(clock, interval=1.0)
    lag.start()
    ((_, call, _),) = clock.calls
    clock.now = -10.0
    call()
    assert lag.latest == 0.0
