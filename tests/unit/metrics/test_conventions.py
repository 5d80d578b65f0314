"""Metrics as Prometheus wants them, and alerts and a dashboard that stand on nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from iot_mqtt.devices.letters import LettersInfo
from iot_mqtt.devices.link.counters import LinkCounters
from iot_mqtt.metrics.certificates import CertificatesCollector
from iot_mqtt.metrics.cluster import ClusterCollector
from iot_mqtt.metrics.collectors import (
    AdminCollector,
    DevicesCollector,
    InboxCollector,
    LinksCollector,
    UplinkCollector,
    WebhooksCollector,
)
from iot_mqtt.metrics.exposition import Metrics
from iot_mqtt.metrics.loop_lag import LoopLag
from iot_mqtt.ports.cluster_status import AbsentNode, Ending
from iot_mqtt.ports.counters import FIGURES, Counters
from iot_mqtt.ports.devices import DeviceFigures
from tests.unit.admin.adminkit import UPLINK
from tests.unit.metrics.metricskit import Cluster, Counts, Facts, Gateway, HandClock, Listener, RoomFacts

FOLDER = Path(__file__).parents[3] / "cluster" / "monitoring"
ALERTS = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())

#: What a metric must not be measured in, as promtool has it.
NOT_BASE = "milliseconds|microseconds|nanoseconds|minutes|hours|days|weeks|kilobytes|megabytes|bits|percent|ms|us|kb|mb"
#: An old name, for one version more.
OLD = {"iot_mqtt_tls_certificate_days"}
#: Labels whose values others choose are not bounded: client ids, topics, users, addresses.
LABELS = {
    *("action", "cause", "codec", "event", "file", "from", "le", "limit", "listener", "node", "number", "outcome"),
    *("peer", "peer_name"),
    *("authority", "reason", "state", "type", "version", "webhook"),
}


class Port:
    """``PortFacts`` of an open port."""

    name = "mqtts"
    days_left = {"server.crt": 30.0}
    lists_left = {("crl.pem", "CN=ca"): 1.0}
    failures = {"not_tls": 1}
    outdated = False


class Hook:
    """``WebhookFacts``."""

    name = "1"
    waiting = sent = 1
    dropped = failures = {"network": 1}


class Logins:
    """``LoginFacts``."""

    outcomes = {"ok": 1}
    logins = 1


LETTERS = LettersInfo("ok", (), None, "t", "g", True, (0,), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)


def everything() -> dict[str, Metric]:
    """Every family that any node may have."""
    counters, links = Counters(), LinkCounters()
    for value in [getattr(counters, name) for name in FIGURES]:
        if isinstance(value, dict):
            value["x"] += 1
    for name in ("skipped", "refused", "faults", "dropped", "commands_refused", "events"):
        getattr(links, name)["x"] += 1
    metrics = Metrics(
        counters,
        Facts,
        ClusterCollector(lambda: Cluster(absent=(AbsentNode(7, "n7", 3, Ending.GONE, 9.0),)), Gateway),
        UplinkCollector(lambda: UPLINK),
        DevicesCollector(lambda: DeviceFigures({"acked": 3}, 2, 5, 1, 4, 6, 0, 8, 0, 0)),
        LinksCollector(lambda: {"gateway": links}),
        InboxCollector(lambda: LETTERS),
        CertificatesCollector(lambda: [Port()]),
        AdminCollector(Logins),
        WebhooksCollector(lambda: [Hook()]),
        lag=LoopLag(HandClock()),
        listeners=lambda: [Listener("mqtt", Counts())],
        log=RoomFacts,
    )
    found = list(text_string_to_metric_families(metrics.render().decode()))
    assert len({one.name for one in found}) == len(found), "a family stands there twice"
    return {one.name: one for one in found}


FAMILIES = everything()
SAMPLES = {sample.name: set(sample.labels) for one in FAMILIES.values() for sample in one.samples}


def ours() -> list[str]:
    return sorted(name for name in FAMILIES if name.startswith("iot_mqtt_"))


@pytest.mark.parametrize("name", ours())
def test_names_and_texts_are_as_they_should_be(name: str) -> None:
    """What ``promtool check metrics`` looks at, and a text that is a sentence."""
    family = FAMILIES[name]
    assert re.fullmatch("[a-z][a-z0-9_]*", name)
    assert not re.search(r"(^|_)(counter|gauge|histogram|summary)($|_)", name)
    assert name in OLD or not re.search(rf"_({NOT_BASE})($|_)", name)
    assert family.documentation.endswith(".")
    assert family.type in ("counter", "gauge", "histogram")
    assert all(sample.name.endswith("_total") == (family.type == "counter") for sample in family.samples)
    assert not any(sample.name.endswith("_created") for sample in family.samples)


@pytest.mark.parametrize("name", ours())
def test_labels_are_bounded(name: str) -> None:
    """Nothing that clients choose."""
    used = {label for sample in FAMILIES[name].samples for label in sample.labels}
    assert used <= LABELS


def test_a_node_by_itself_and_a_cluster_have_all_of_it() -> None:
    """The kit forgets nothing: each module of ``metrics`` that makes families is asked."""
    assert {"iot_mqtt_peer_link_up", "iot_mqtt_uplink_lag_seconds", "iot_mqtt_inbox_lag_records"} <= set(FAMILIES)
    assert len(ours()) > 120


# Alerts and dashboard.


def rules() -> list[dict[str, Any]]:
    return [rule for group in ALERTS["groups"] for rule in group["rules"]]


def queries() -> Iterator[tuple[str, str]]:
    """(where, PromQL), with Grafana's variables as Prometheus gets them."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")


def selectors(node: Any) -> Iterator[promql_parser.VectorSelector]:
    """All that an expression selects."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
        return
    for name in ("lhs", "rhs", "expr", "args", "vector_selector"):
        inner = getattr(node, name, None)
        for one in inner if isinstance(inner, list) else [inner]:
            if one is not None:
                yield from selectors(one)


@pytest.mark.parametrize(("where", "query"), queries())
def test_every_query_is_promql_about_what_there_is(where: str, query: str) -> None:
    """Each metric is one of a node, with the labels that are asked for."""
    found = list(selectors(promql_parser.parse(query)))
    assert found, where
    for selector in found:
        name = selector.name or ""
        if name == "up" or name.startswith("process_"):
            continue
        assert name in SAMPLES
        for matcher in selector.matchers.matchers:
            assert matcher.name in SAMPLES[name] | {"instance", "job"}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_alerts_say_what_is_the_matter(rule: dict[str, Any]) -> None:
    """A name, a severity, a sentence; labels in it are those that the expression keeps."""
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"]
    assert "for" not in rule or promql_parser.parse_duration(rule["for"])
    text = " ".join(rule["annotations"].values())
    named = set(re.findall(r"\$labels\.(\w+)", text))
    kept = {label for one in selectors(promql_parser.parse(rule["expr"])) for label in SAMPLES.get(one.name or "", ())}
    assert named <= kept | {"instance"}


def test_alerts_name_a_node_by_its_name() -> None:
    """A number goes by the order of joining, and reads like another one's name."""
    texts = [text for rule in rules() for text in rule["annotations"].values()]
    assert not [text for text in texts if "$labels.peer " in text or "$labels.peer}" in text]


def test_what_the_documentation_finds_worth_an_alert_has_one() -> None:
    """The table of cluster-operations.md."""
    text = (FOLDER.parents[1] / "docs" / "cluster-operations.md").read_text()
    table = text.partition("| metric | alert when |")[2].partition("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("|")]
    worth = {name for row in rows for name in re.findall(r"`(iot_mqtt_\w+)", row)}
    asked = {one.name for rule in rules() for one in selectors(promql_parser.parse(rule["expr"]))}
    assert len(worth) > 10
    assert worth <= asked


def test_what_a_node_itself_calls_an_alarm_or_a_loss_has_one() -> None:
    """Each metric that is 1 while something is wrong, and each that counts what is lost for good."""
    asked = {one.name for rule in rules() for one in selectors(promql_parser.parse(rule["expr"]))}
    worth = {name for name in SAMPLES if name.startswith("iot_mqtt_") and re.search("_(alarm|failing|outdated)$", name)}
    worth |= {name for name in SAMPLES if re.search(r"iot_mqtt_(webhook|uplink)_(dropped|lost)_\w+$", name)}
    assert len(worth) > 6
    assert worth <= asked


def test_what_retention_takes_once_an_hour_is_asked_for_over_more_than_that() -> None:
    """A rate over minutes that has to hold for minutes would never see it."""
    (rule,) = [rule for rule in rules() if 'reason="retention"' in rule["expr"]]
    comparison: Any = promql_parser.parse(rule["expr"])
    call = comparison.lhs
    assert (call.func.name, call.args[0].range) == ("increase", timedelta(hours=2))
    assert "for" not in rule


def test_names_of_alerts_and_places_of_panels_are_their_own() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len({str(panel["gridPos"]) for panel in panels}) == len(panels)


def test_prometheus_finds_rules_and_nodes() -> None:
    """By the name that the alerts ask for."""
    told = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    assert [FOLDER / name for name in told["rule_files"]] == [FOLDER / "alerts.yaml"]
    assert [one["job_name"] for one in told["scrape_configs"]] == ["iot-mqtt"]
