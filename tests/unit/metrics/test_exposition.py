"""``/metrics``: every counter, every figure, in the form that Prometheus reads."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from iot_mqtt.metrics.exposition import Metrics
from iot_mqtt.metrics.loop_lag import LoopLag
from iot_mqtt.ports.counters import Counters, Drop
from tests.unit.metrics.metricskit import Counts, Facts, HandClock, Listener

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
    for place, (name, value) in enumerate(vars(counters).items(), 101):
        if isinstance(value, dict):
            value["label"] += place
        else:
            setattr(counters, name, place)
    shown = set(scrape(Metrics(counters, Facts)).values())
    assert [name for place, name in enumerate(vars(counters), 101) if place not in shown] == []


def test_every_figure_is_exposed() -> None:
    """Clients, sessions, what waits and what is kept."""
    samples = scrape(Metrics(Counters(), Facts))
    names = ("clients", "sessions", "subscriptions", "retained_messages", "retained_bytes")
    assert [samples[f"iot_mqtt_{name}", ()] for name in names] == [2, 5, 7, 11, 13]
    assert samples["iot_mqtt_ready", ()] == 1


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


def test_a_scrape_shows_the_counters_as_they_are_then() -> None:
    """Nothing is copied at construction."""
    counters = Counters()
    metrics = Metrics(counters, Facts)
    counters.messages_received = 5
    assert scrape(metrics)["iot_mqtt_messages_received_total", ()] == 5


def test_node_and_version_are_labels() -> None:
    """So that a dashboard sees which version runs where."""
    assert scrape(Metrics(Counters(), Facts))["iot_mqtt_info", (("node", "n1"), ("version", "1.2"))] == 1


def test_listeners_are_told_apart() -> None:
    """Connections by port, those refused too."""
    listeners = [Listener("mqtt", Counts(3, 1, 2)), Listener("ws", Counts(0, 0, 0))]
    samples = scrape(Metrics(Counters(), Facts, listeners=lambda: listeners))
    assert samples["iot_mqtt_listener_refused_total", (("listener", "mqtt"),)] == 1
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
    """Half a second over what was due is half a second of lag."""
    clock = HandClock()
    lag = LoopLag(clock, interval=1.0)
    lag.start()
    clock.turn(1.5)
    assert lag.latest == 0.5
    clock.turn(1.0)
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
