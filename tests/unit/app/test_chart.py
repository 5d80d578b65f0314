"""The chart of Helm: what it makes of its defaults is what ``cluster/k8s`` has, which is tested in depth."""

from __future__ import annotations

import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from iot_mqtt import __version__
from iot_mqtt.app.config import load_config
from scripts import chart

ROOT = Path(__file__).parents[3]
NEEDS_HELM = pytest.mark.skipif(chart.HELM is None, reason="needs helm")


def by_name(text: str) -> dict[tuple[str, str], Any]:
    """The documents, with the configuration in them read, without its sum and without when images are fetched."""
    found = {}
    for document in filter(None, yaml.safe_load_all(text)):
        for container in document.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
            container.pop("imagePullPolicy", None)
        described = document.get("spec", {}).get("template", {}).get("metadata", {})
        if list(described.get("annotations", ())) == ["checksum/config"]:
            del described["annotations"]
        if document["kind"] == "ConfigMap":
            document["data"] = {name: yaml.safe_load(value) for name, value in document["data"].items()}
        found[document["kind"], document["metadata"]["name"]] = document
    return found


def of_kustomize() -> dict[tuple[str, str], Any]:
    """What ``kubectl apply --kustomize cluster/k8s`` applies, but for the namespace, which is the release's."""
    folder = ROOT / "cluster" / "k8s"
    told = yaml.safe_load((folder / "kustomization.yaml").read_text())
    found = by_name("---\n".join((folder / name).read_text() for name in told["resources"]))
    for made in told["configMapGenerator"]:
        found["ConfigMap", made["name"]] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": made["name"], "namespace": made["namespace"]},
            "data": {file: yaml.safe_load((folder / file).read_text()) for file in made["files"]},
        }
    del found["Namespace", "iot-mqtt"]
    return found


def check_sums(text: str) -> dict[str, str]:
    """The sums that pods have of their configuration, by name, when each is right."""
    documents = list(filter(None, yaml.safe_load_all(text)))
    texts = {one["metadata"]["name"]: one["data"].values() for one in documents if one["kind"] == "ConfigMap"}
    summed = {
        one["metadata"]["name"]: one["spec"]["template"]["metadata"].get("annotations", {}).get("checksum/config")
        for one in documents
        if one["kind"] in ("StatefulSet", "Deployment") and one["metadata"]["name"] in texts
    }
    assert summed == {name: sha256("".join(data).strip().encode()).hexdigest() for name, data in texts.items()}
    return summed


def test_what_was_rendered_is_of_this_chart() -> None:
    """After a change of the chart: ``scripts/chart.py``."""
    assert chart.digest() in chart.RENDERED.read_text().splitlines()[0]


def test_the_defaults_make_what_kustomize_applies() -> None:
    """Every document, word for word, but for what values can say."""
    assert by_name(chart.RENDERED.read_text()) == of_kustomize()


def test_pods_have_the_sum_of_their_configuration() -> None:
    """Another one replaces them: kustomize says so by the name of a ConfigMap, the chart by an annotation."""
    check_sums(chart.RENDERED.read_text())


def test_it_is_of_this_version_and_has_no_secret() -> None:
    """They are made by commands, as the example of ``cluster/k8s`` says."""
    about = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
    assert about["appVersion"] == __version__
    assert not [document for kind, document in by_name(chart.RENDERED.read_text()) if kind == "Secret"]
    values = (chart.CHART / "values.yaml").read_text()
    assert not any(word in line.lower() for line in values.splitlines() for word in ("password:", "token:", "secret:"))


@NEEDS_HELM
def test_helm_makes_it_again() -> None:
    """Where there is one."""
    assert by_name(chart.rendered()) == by_name(chart.RENDERED.read_text())
    assert "0 chart(s) failed" in chart.helm("lint", "--strict", str(chart.CHART))


@NEEDS_HELM
def test_values_say_how_many_and_which_kafka() -> None:
    """Five brokers on five Ignite servers, a Kafka that is there, no jobs."""
    options = ["broker.replicas=5", "ignite.replicas=5", "kafka.enabled=false", "pipeline.enabled=false"]
    options += ["kafka.bootstrapServers={kafka.plant:9093}", "images.registry=r.example/", "storageClass=fast"]
    options += ["broker.config.uplink.kafka.security.ca=/etc/ssl/ca.crt", "networkPolicies=false"]
    text = chart.rendered(*(part for option in options for part in ("--set", option)))
    assert check_sums(text)["iot-mqtt"] != check_sums(chart.RENDERED.read_text())["iot-mqtt"]
    made = by_name(text)
    told = made["ConfigMap", "iot-mqtt"]["data"]["broker.yaml"]
    assert told["uplink"]["kafka"]["bootstrap_servers"] == ["kafka.plant:9093"]
    assert told["uplink"]["kafka"]["security"]["ca"] == "/etc/ssl/ca.crt"
    assert len(told["grid"]["ignite"]["addresses"]) == 5
    assert made["StatefulSet", "iot-mqtt"]["spec"]["replicas"] == 5
    assert {kind for kind, name in made if "kafka" in name or "pipeline" in name} == set()
    (claim,) = made["StatefulSet", "ignite"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"
    (ignite,) = made["StatefulSet", "ignite"]["spec"]["template"]["spec"]["containers"]
    assert ignite["image"] == f"r.example/iot-mqtt-ignite:{__version__}"
    assert {"name": "IGNITE_QUORUM", "value": "3"} in ignite["env"]
    assert not [kind for kind, _ in made if kind == "NetworkPolicy"]


def refusal(*options: str) -> str:
    """What Helm says of values that it refuses."""
    sets = (part for option in options for part in ("--set", option))
    command = [str(chart.HELM), "template", "iot-mqtt", str(chart.CHART), *sets]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode
    return made.stderr


@NEEDS_HELM
@pytest.mark.parametrize("kind", ["none", "file"])
def test_a_broker_without_kafka_has_no_key_of_it(kind: str, tmp_path: Path) -> None:
    """They would be refused, as they have no effect; the pipeline would have nothing to read."""
    options = ("--set", "kafka.enabled=false", "--set", f"broker.config.uplink.kind={kind}")
    made = by_name(chart.rendered(*options))
    assert {kind for kind, name in made if "kafka" in name or "pipeline" in name} == set()
    told = made["ConfigMap", "iot-mqtt"]["data"]["broker.yaml"]
    assert told["uplink"] == {"kind": kind}
    (tmp_path / "broker.yaml").write_text(yaml.safe_dump({"uplink": told["uplink"]}))
    assert load_config(str(tmp_path / "broker.yaml")).uplink.kind == kind


@NEEDS_HELM
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["kafka.enabled=false"], "kafka.bootstrapServers: name a Kafka"),
        (["kafka.enabled=false", "kafka.bootstrapServers=a:9092"], "/kafka/bootstrapServers': got string, want array"),
        (["broker.replicsa=5"], "'replicsa' not allowed"),
        (["brokers.replicas=5"], "'brokers' not allowed"),
        (["broker.service.type=Loadbalancer"], "/broker/service/type"),
        (["zookeeper.replicas=2"], "/zookeeper/replicas"),
        (["ignite.replicas=2"], "/ignite/replicas"),
        (["ignite.backups=3"], "ignite.backups: 3 further copies need more servers"),
        (["ignite.heap=4g"], "ignite.resources.limits.memory: 5Gi has no room"),
        (["ignite.heap=1GB"], "/ignite/heap"),
        (["ignite.region=8589934592"], "ignite.resources.limits.memory: 5Gi has no room"),
        (["pipeline.memory=2g"], "pipeline.resources.limits.memory: 2Gi has no room"),
        (["broker.config.node.drain_seconds=soon"], "/broker/config/node/drain_seconds"),
    ],
)
def test_values_that_make_no_cluster_are_refused(options: list[str], wanted: str) -> None:
    """Before anything is made of them."""
    assert wanted in refusal(*options)


@NEEDS_HELM
@pytest.mark.parametrize("key", ["broker.drainSeconds", "broker.config.node.drain_seconds"])
def test_a_pod_has_time_for_its_drain_wherever_that_is_said(key: str) -> None:
    """The pause of preStop, what the node takes, and some air."""
    made = by_name(chart.rendered("--set", f"{key}=200"))
    assert made["ConfigMap", "iot-mqtt"]["data"]["broker.yaml"]["node"]["drain_seconds"] == 200
    assert made["StatefulSet", "iot-mqtt"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 220
