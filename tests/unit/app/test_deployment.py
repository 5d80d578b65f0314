"""The files of ``cluster/compose``, ``cluster/k8s`` and ``cluster/docker``, held against each other and the broker.

Neither Docker nor Kubernetes is needed: what is checked is what usually goes wrong, a name here that is another there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from iot_mqtt import __version__
from iot_mqtt.app.config import load_config
from iot_mqtt.app.config.schema import find
from iot_mqtt.app.config.secret_files import secret_behind
from iot_mqtt.app.config.sections import Config, known_listeners
from iot_mqtt.app.engines.plan import PORTS

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
CLUSTER = ROOT / "cluster"
COMPOSE = yaml.safe_load((CLUSTER / "compose" / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
KUSTOMIZATION = yaml.safe_load((CLUSTER / "k8s" / "kustomization.yaml").read_text())
MANIFESTS = sorted((CLUSTER / "k8s").glob("[0-9]*.yaml"))
DOCKERFILES = sorted((CLUSTER / "docker").glob("*.Dockerfile"))
#: `name:1.2.3`, with or without more behind it; no `latest`, no `1.2` that moves on.
PINNED = re.compile(r"[\w./-]+:\d+\.\d+\.\d+[\w.-]*")
DRAIN_SECONDS = Config().node.drain_seconds
#: Jobs of the pipeline that run all the time.
JOBS = ("clean", "aggregate", "alarm")
#: What clients come to; those of plain text are off.
LISTENERS = ("mqtts", "wss", "gateway")
PLAIN_LISTENERS = ("mqtt", "ws")
DEFAULT_PORTS = {name: known_listeners()[name].port for name in LISTENERS} | {"admin": 18083}
#: What a broker's image says; it may be told to listen in plain text.
IMAGE_PORTS = {known_listeners()[name].port for name in (*LISTENERS, *PLAIN_LISTENERS)} | {18083}
#: Topics that a broker and the jobs of the pipeline write.
TOPICS = ("iot.readings", "iot.dead", "iot.clean", "iot.invalid", "iot.alarms", "iot.commands")
GIB = 1 << 30
#: Where each part of the cluster finds its certificate, and what is beside it.
FILES = "/etc/iot-mqtt"
TLS = f"{FILES}/tls"
#: What comes from the environment.
TOLD = ["node.id=broker-1", "registry.zookeeper.hosts=[zookeeper-1:2181]"]


def documents() -> list[dict[str, Any]]:
    return [document for path in MANIFESTS for document in yaml.safe_load_all(path.read_text())]


def of_kind(*kinds: str) -> dict[str, dict[str, Any]]:
    return {document["metadata"]["name"]: document for document in documents() if document["kind"] in kinds}


def leaves(tree: Any, prefix: str = "") -> Iterator[str]:
    """The dotted keys of a configuration."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def unknown_keys(keys: Iterator[str]) -> list[str]:
    return [key for key in keys if find(secret_behind(key) or key, known_listeners()) is None]


def environment_keys(names: Iterator[str]) -> Iterator[str]:
    for name in names:
        if name.startswith("IOT_MQTT__"):
            yield name.removeprefix("IOT_MQTT__").lower().replace("__", ".")


def version(name: str) -> str:
    """A version that cluster/pom.xml says."""
    found = re.search(rf"<{name}\.version>([^<]+)<", (CLUSTER / "pom.xml").read_text())
    assert found is not None
    return found[1]


def images() -> Iterator[str]:
    yield from (service["image"] for service in SERVICES.values())
    for workload in of_kind("StatefulSet", "Deployment").values():
        yield from (container["image"] for container in workload["spec"]["template"]["spec"]["containers"])


def write_with_files(file: Path, told: dict[str, Any]) -> None:
    """The configuration, with the certificates and secrets that volumes would bring."""
    text = yaml.safe_dump(told).replace(f"{FILES}/", f"{file.parent}/")
    for path in re.findall(rf"{re.escape(str(file.parent))}/[\w./]+", text):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text("secret\n" if Path(path).name in ("token", "password") else "")
    file.write_text(text)


def broker_configurations() -> dict[str, Any]:
    return {
        "compose": yaml.safe_load((CLUSTER / "compose" / "broker.yaml").read_text()),
        "k8s": yaml.safe_load((CLUSTER / "k8s" / "broker.yaml").read_text()),
    }


# --- both -------------------------------------------------------------------------------------------------------


def test_images_are_pinned_and_of_the_versions_that_are_tested() -> None:
    """Ours are this version, the others those of cluster/pom.xml that the tests run with."""
    expected = {
        f"iot-mqtt:{__version__}",
        f"iot-mqtt-ignite:{__version__}",
        f"iot-mqtt-pipeline:{__version__}",
        f"zookeeper:{version('zookeeper')}",
        f"apache/kafka:{version('kafka')}",
    }
    assert set(images()) == expected
    assert all(PINNED.fullmatch(image) for image in expected)


@pytest.mark.parametrize("where", ["compose", "k8s"])
def test_brokers_are_told_of_keys_that_exist(where: str) -> None:
    """In files and in the environment."""
    assert unknown_keys(leaves(broker_configurations()[where])) == []
    if where == "compose":
        names = [name for service in SERVICES.values() for name in service.get("environment", {})]
    else:
        (container,) = of_kind("StatefulSet")["iot-mqtt"]["spec"]["template"]["spec"]["containers"]
        names = [variable["name"] for variable in container["env"]]
    keys = list(environment_keys(iter(names)))
    assert "node.id" in keys
    assert unknown_keys(iter(keys)) == []


@pytest.mark.parametrize("where", ["compose", "k8s"])
def test_brokers_would_serve_with_what_they_are_told(where: str, tmp_path: Path) -> None:
    """As ``iot-mqtt config check`` sees it, with the files that a secret would bring."""
    told = broker_configurations()[where]
    write_with_files(tmp_path / "broker.yaml", told)
    config = load_config(str(tmp_path / "broker.yaml"), TOLD)
    assert len(config.grid.ignite.addresses) == len(config.grid.ignite.gateway) == 3
    assert config.grid.ignite.token == config.registry.zookeeper.password == "secret"


@pytest.mark.parametrize("where", ["compose", "k8s"])
def test_brokers_listen_beyond_the_container_and_use_the_real_grid(where: str) -> None:
    """On loopback nobody would reach them; and who gets in was written out."""
    told = broker_configurations()[where]
    assert {told["listeners"][name]["host"] for name in LISTENERS} | {told["admin"]["host"]} == {"0.0.0.0"}
    assert (told["grid"]["kind"], told["registry"]["kind"]) == ("ignite", "zookeeper")
    assert told["node"]["drain_seconds"] == DRAIN_SECONDS
    auth = told["auth"]
    assert auth == {"chain": ["grid"]} if where == "compose" else "users_file" in auth


@pytest.mark.parametrize("where", ["compose", "k8s"])
def test_no_port_of_a_broker_is_in_plain_text_and_no_connection_of_it_either(where: str) -> None:
    """Clients, the admin port, Ignite, ZooKeeper, Kafka; and nothing that allows it is written."""
    told = broker_configurations()[where]
    for name in PLAIN_LISTENERS:
        assert told["listeners"][name] == {"enabled": False}
    for port in (*(told["listeners"][name] for name in LISTENERS), told["admin"]):
        assert {"cert", "key"} == set(port["tls"])
    assert "allow_plain" not in told["admin"]
    kafka = told["uplink"]["kafka"]["security"]
    assert kafka.pop("protocol") == "ssl"
    for mine in (told["grid"]["ignite"]["tls"], told["registry"]["zookeeper"]["tls"], kafka):
        assert mine == {"ca": f"{TLS}/ca.crt", "cert": f"{TLS}/tls.crt", "key": f"{TLS}/tls.key"}


@pytest.mark.parametrize("where", ["compose", "k8s"])
def test_kafka_has_no_port_in_plain_text(where: str) -> None:
    """And its image is not made to look for key stores of Java, which it does where a listener is named SSL."""
    environment = kafka_environment(where)
    assert environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"] == "CLUSTER:SSL,CONTROLLER:SSL"
    assert "SSL://" not in environment["KAFKA_ADVERTISED_LISTENERS"]
    assert environment["KAFKA_SSL_CLIENT_AUTH"] == "required"
    assert environment["KAFKA_SSL_KEYSTORE_LOCATION"] == f"{TLS}/tls.pem"


def test_kubernetes_tells_kafka_and_zookeeper_what_compose_does() -> None:
    """Which is tried, in ``tests/cluster/test_compose.py``: but for names, sizes and what an ensemble takes more."""
    ours, theirs = kafka_environment("compose"), kafka_environment("k8s")
    names = {"KAFKA_CONTROLLER_QUORUM_VOTERS", "KAFKA_ADVERTISED_LISTENERS", "KAFKA_LOG_DIRS", "KAFKA_HEAP_OPTS"}
    assert {key: ours[key] for key in ours if key not in names} == {
        key: theirs[key] for key in theirs if key not in names
    }
    (zookeeper,) = of_kind("StatefulSet")["zookeeper"]["spec"]["template"]["spec"]["containers"]
    told = {variable["name"]: variable["value"] for variable in zookeeper["env"]}["ZOO_CFG_EXTRA"].split()
    assert ["quorumListenOnAllIPs=true", *SERVICES["zookeeper-1"]["environment"]["ZOO_CFG_EXTRA"].split()] == told


def test_no_secret_is_in_a_file() -> None:
    """Tokens and passwords stand in files of their own, which volumes bring."""
    for told in broker_configurations().values():
        assert "token" not in told["grid"]["ignite"] and "password" not in told["registry"]["zookeeper"]
    containers = [
        container
        for workload in of_kind("StatefulSet").values()
        for container in workload["spec"]["template"]["spec"]["containers"]
    ]
    named = {variable["name"] for container in containers for variable in container["env"]}
    named |= {name for service in SERVICES.values() for name in service.get("environment", {})}
    assert not [name for name in named if re.search(r"(TOKEN|PASSWORD|SECRET)$", name)]
    assert {
        document["stringData"]["token"] for document in documents() if "token" in document.get("stringData", {})
    } == {"replace-me"}


@pytest.mark.parametrize("where", ["compose", "k8s"])
def test_what_goes_up_goes_to_the_kafka_that_is_started(where: str) -> None:
    """Its servers alone are told for nothing; it has partitions, and a bound for each."""
    uplink = broker_configurations()[where]["uplink"]
    assert uplink["kind"] == "kafka" and uplink["kafka"]["bootstrap_servers"]
    environment = kafka_environment(where)
    assert int(environment["KAFKA_NUM_PARTITIONS"]) >= 3
    assert 0 < int(environment["KAFKA_LOG_SEGMENT_BYTES"]) < int(environment["KAFKA_LOG_RETENTION_BYTES"])


def kafka_environment(where: str) -> dict[str, str]:
    if where == "compose":
        return dict(SERVICES["kafka"]["environment"])
    (kafka,) = of_kind("StatefulSet")["kafka"]["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable["value"] for variable in kafka["env"]}


def test_every_port_is_published() -> None:
    """By compose for each broker, by the service of Kubernetes for clients; the admin port is for operators."""
    readme = {int(port) for port in re.findall(r"^\| (\d{4,5}) \|", (ROOT / "README.md").read_text(), re.MULTILINE)}
    assert readme == IMAGE_PORTS - {known_listeners()[name].port for name in ("mqtts", "wss")}
    named = set(DEFAULT_PORTS.values())
    for number in (1, 2, 3):
        assert {int(port.rsplit(":")[-1]) for port in SERVICES[f"broker-{number}"]["ports"]} == named
    service = of_kind("Service")["mqtt"]["spec"]
    assert {port["port"] for port in service["ports"]} == named - {DEFAULT_PORTS["admin"]}
    assert {port["targetPort"] for port in service["ports"]} == set(LISTENERS)
    # What the page about clusters says of compose is what is there.
    page = (ROOT / "docs" / "cluster.md").read_text().partition("## With Docker")[2].partition("## ")[0]
    for number in (1, 2, 3):
        outside = {int(port.split(":")[1]) for port in SERVICES[f"broker-{number}"]["ports"]}
        assert all(re.search(rf"\b{port}\b", page) or number == 2 for port in outside), (number, page)


def storage(workload: str) -> int:
    """Bytes of a volume of each pod."""
    (claim,) = of_kind("StatefulSet")[workload]["spec"]["volumeClaimTemplates"]
    size = claim["spec"]["resources"]["requests"]["storage"]
    assert size.endswith("Gi")
    return int(size.removesuffix("Gi")) * GIB


def test_limits_are_below_the_volumes_that_they_are_about(tmp_path: Path) -> None:
    """What a broker, Kafka and the grid keep at most has room where they keep it."""
    told = broker_configurations()["k8s"]
    write_with_files(tmp_path / "broker.yaml", told)
    config = load_config(str(tmp_path / "broker.yaml"), TOLD)
    # Files would be on the broker's own volume; in Kafka and the grid nothing is.
    files = config.uplink.file.limit + config.uplink.file.reserve if config.uplink.kind == "file" else 0
    assert files < storage("iot-mqtt")
    kafka = kafka_environment("k8s")
    partition = int(kafka["KAFKA_LOG_RETENTION_BYTES"]) + int(kafka["KAFKA_LOG_SEGMENT_BYTES"])
    assert len(TOPICS) * int(kafka["KAFKA_NUM_PARTITIONS"]) * partition < 0.9 * storage("kafka")
    ignite = of_kind("StatefulSet")["ignite"]["spec"]
    environment = {one["name"]: one.get("value") for one in ignite["template"]["spec"]["containers"][0]["env"]}
    brokers = of_kind("StatefulSet")["iot-mqtt"]["spec"]["replicas"]
    kept = brokers * config.log.retention_bytes * (1 + int(str(environment["IGNITE_BACKUPS"])))
    # Beside the data: the write-ahead log and its archive, of ignite-server.xml.
    assert kept / ignite["replicas"] + 1.5 * GIB < 0.9 * storage("ignite")


# --- compose ----------------------------------------------------------------------------------------------------


def test_compose_has_three_of_what_must_not_be_one() -> None:
    """And a second and a third ZooKeeper server if asked for."""
    assert set(SERVICES) == {
        *(f"{name}-{number}" for name in ("zookeeper", "ignite", "broker") for number in (1, 2, 3)),
        *(f"pipeline-{job}" for job in JOBS),
        "kafka",
        "certificates",
    }
    assert [name for name in SERVICES if SERVICES[name].get("profiles") == ["ensemble"]] == [
        "zookeeper-2",
        "zookeeper-3",
    ]
    ensemble = (CLUSTER / "compose" / "ensemble.env").read_text()
    assert "COMPOSE_PROFILES=ensemble\n" in ensemble
    for number in (1, 2, 3):
        assert f"server.{number}=zookeeper-{number}:2888:3888" in ensemble
        assert f"zookeeper-{number}:2181" in ensemble.partition("ZOOKEEPER_HOSTS=")[2]


def test_compose_addresses_are_those_of_its_services() -> None:
    """Every Ignite server by its thin-client port and by its gateway's."""
    told = broker_configurations()["compose"]
    ignites = [name for name in SERVICES if name.startswith("ignite-")]
    assert told["grid"]["ignite"]["addresses"] == [f"{name}:{PORTS['ignite']['client']}" for name in ignites]
    assert told["grid"]["ignite"]["gateway"] == [f"{name}:{PORTS['ignite']['gateway']}" for name in ignites]
    assert told["uplink"]["kafka"]["bootstrap_servers"] == [f"kafka:{PORTS['kafka']['client']}"]
    for name in ignites:
        environment = SERVICES[name]["environment"]
        assert environment["IGNITE_NAME"] == name
        assert environment["IGNITE_SERVERS"] == ",".join(f"{one}:{PORTS['ignite']['discovery']}" for one in ignites)
        assert environment["IGNITE_QUORUM"] == str(len(ignites) // 2 + 1)


def test_certificates_are_there_before_anybody_looks_for_them() -> None:
    """Whoever makes them ends then, is alone with the authority's key, and is no server."""
    maker = SERVICES["certificates"]
    assert (maker["restart"], maker["network_mode"], "ports" in maker) == ("no", "none", False)
    assert os.access(CLUSTER / "compose" / "certificates.sh", os.X_OK)
    given = dict(volume.split(":")[:2] for volume in maker["volumes"] if volume.startswith("tls-"))
    for name, service in SERVICES.items():
        if name == "certificates":
            continue
        assert service["depends_on"]["certificates"] == {"condition": "service_completed_successfully"}
        part = name.partition("-")[0]
        assert f"tls-{part}:{TLS}:ro" in service["volumes"] and given[f"tls-{part}"] == f"/tls/{part}"
        assert not any(volume.startswith("authority:") for volume in service["volumes"])


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"certificates"}))
def test_a_compose_service_is_watched_restarted_and_out_of_reach(name: str) -> None:
    """Health, restart, volumes that exist, ports on the loopback interface only."""
    service = SERVICES[name]
    assert service["healthcheck"]["test"]
    assert service["restart"] == "unless-stopped"
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert set(service.get("depends_on", ())) <= set(SERVICES)
    for volume in service.get("volumes", ()):
        source = volume.split(":")[0]
        assert (CLUSTER / "compose" / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
    if "build" in service:
        context = (CLUSTER / "compose" / service["build"]["context"]).resolve()
        assert context == ROOT
        assert (context / service["build"]["dockerfile"]).exists()


def test_compose_brokers_differ_in_name_and_published_ports() -> None:
    """Inside they listen where every broker does, and they are given the time to drain."""
    brokers = [SERVICES[f"broker-{number}"] for number in (1, 2, 3)]
    assert [broker["environment"]["IOT_MQTT__NODE__ID"] for broker in brokers] == ["broker-1", "broker-2", "broker-3"]
    published = [port.split(":") for broker in brokers for port in broker["ports"]]
    assert len({outside for _, outside, _ in published}) == len(published) == 12
    assert {int(inside) for _, _, inside in published} == set(DEFAULT_PORTS.values())
    assert all(int(broker["stop_grace_period"].removesuffix("s")) > DRAIN_SECONDS for broker in brokers)


def pipeline_configurations() -> dict[str, Any]:
    """What the jobs are told."""
    return {
        "compose": yaml.safe_load((CLUSTER / "compose" / "pipeline.yaml").read_text()),
        "k8s": yaml.safe_load((CLUSTER / "k8s" / "pipeline.yaml").read_text()),
    }


@pytest.mark.parametrize("where", ["compose", "k8s"])
def test_the_jobs_read_what_brokers_write_and_the_other_way_round(where: str) -> None:
    """The same Kafka, shown a certificate of the jobs' own; what rules order comes back to the brokers."""
    broker, told = broker_configurations()[where], pipeline_configurations()[where]
    assert unknown_keys(leaves(told)) == []
    assert told["uplink"] == {key: broker["uplink"][key] for key in ("kind", "kafka")}
    assert told["pipeline"]["alarm"]["commands_topic"] == broker["uplink"]["commands"]["topic"] in TOPICS


def test_compose_runs_every_job_on_one_volume() -> None:
    """With a state that the next start goes on from."""
    for job in JOBS:
        service = SERVICES[f"pipeline-{job}"]
        assert service["command"] == ["pipeline", "run", job, "--config", "/etc/iot-mqtt/pipeline.yaml"]
        assert service["environment"] == {"IOT_JOB": job}
        assert "pipeline:/data" in service["volumes"]
        assert (service["image"].partition(":")[0], service["build"]["target"]) == ("iot-mqtt-pipeline", "pipeline")


# --- kubernetes ---------------------------------------------------------------------------------------------------


def test_kustomize_applies_everything_but_the_example() -> None:
    """The secrets are made by commands."""
    assert KUSTOMIZATION["resources"] == [path.name for path in MANIFESTS if "example" not in path.name]


def test_another_version_can_be_applied_over_this_one() -> None:
    """The template of a Job may never change, and an image is in it."""
    assert of_kind("Job") == {}


@pytest.mark.parametrize("name", ["iot-mqtt", "iot-mqtt-pipeline"])
def test_a_configuration_that_changes_reaches_the_pods(name: str) -> None:
    """Its name is of its content, so pods are replaced. A folder shows what is edited in place; a copy does not."""
    (made,) = (one for one in KUSTOMIZATION["configMapGenerator"] if one["name"] == name)
    assert (made["namespace"], KUSTOMIZATION.get("generatorOptions")) == ("iot-mqtt", None)
    (file,) = made["files"]
    pod = of_kind("StatefulSet", "Deployment")[name]["spec"]["template"]["spec"]
    assert {"name": "config", "configMap": {"name": name}} in pod["volumes"]
    for container in pod["containers"]:
        (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "config")
        assert mount == {"name": "config", "mountPath": f"{FILES}/config", "readOnly": True}
        assert container["args"][-2:] == ["--config", f"{FILES}/config/{file}"]


def test_everything_is_in_one_namespace() -> None:
    """Which keeps its pods to the restricted standard."""
    (namespace,) = of_kind("Namespace").values()
    assert namespace["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}
    others = [document for document in documents() if document["kind"] != "Namespace"]
    assert {document["metadata"]["namespace"] for document in others} == {namespace["metadata"]["name"]}


@pytest.mark.parametrize("name", of_kind("StatefulSet", "Deployment"))
def test_a_pod_is_bounded_and_unprivileged(name: str) -> None:
    """As the restricted standard wants it; and no container eats a node's memory."""
    pod = of_kind("StatefulSet", "Deployment")[name]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"] and container["resources"]["requests"]["memory"]
        for variable in container["env"]:
            assert ("value" in variable) != ("valueFrom" in variable)
            assert isinstance(variable.get("value", ""), str)


@pytest.mark.parametrize("name", of_kind("StatefulSet"))
def test_a_stateful_set_is_complete(name: str) -> None:
    """Labels that are selected, a headless service, probes on ports that exist, mounts of volumes that exist."""
    spec = of_kind("StatefulSet")[name]["spec"]
    labels, pod = spec["template"]["metadata"]["labels"], spec["template"]["spec"]
    assert spec["selector"]["matchLabels"] == labels == {"app": name}
    service = of_kind("Service")[spec["serviceName"]]["spec"]
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"] is True
    assert service["selector"] == labels
    (container,) = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["name"]: port["port"] for port in service["ports"]}.items() <= ports.items()
    probes = [value for key, value in container.items() if key.endswith("Probe")]
    assert {"readinessProbe", "livenessProbe"} <= set(container)
    for probe in probes:
        way = probe.get("httpGet") or probe.get("tcpSocket")
        assert "exec" in probe or way["port"] in ports
    volumes = {volume["name"] for volume in pod.get("volumes", ())}
    volumes |= {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_kubernetes_runs_every_job_on_one_volume() -> None:
    """In one pod, which is never there twice: two drivers would write the same tables."""
    spec = of_kind("Deployment")["iot-mqtt-pipeline"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    pod = spec["template"]["spec"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    for job, container in zip(JOBS, pod["containers"], strict=True):
        assert container["args"][:3] == ["pipeline", "run", job]
        assert container["startupProbe"]["exec"]["command"][-1] == f"/data/pipeline/status/{job}.json"
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_what_has_several_pods_is_drained_one_by_one() -> None:
    """A disruption budget for each."""
    budgets = of_kind("PodDisruptionBudget")
    for name, workload in of_kind("StatefulSet").items():
        if workload["spec"]["replicas"] > 1:
            assert budgets[name]["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}}


def test_broker_pods_are_asked_and_drained_by_the_admin_port_and_sigterm() -> None:
    """``/ready`` decides who gets clients, ``/health`` who is restarted; there is time for both ends of a drain."""
    pod = of_kind("StatefulSet")["iot-mqtt"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "admin", "scheme": "HTTPS"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/health", "port": "admin", "scheme": "HTTPS"}
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == DEFAULT_PORTS
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pause > container["readinessProbe"]["periodSeconds"] * container["readinessProbe"]["failureThreshold"]
    assert pod["terminationGracePeriodSeconds"] > pause + DRAIN_SECONDS


def test_a_broker_has_the_same_time_to_start_in_a_pod_and_in_a_unit() -> None:
    """It waits for its grid, and reads its log. Ignite's servers have less, so they are up or given up before it."""
    (unit,) = (ROOT / "packaging" / "systemd").glob("*.service")
    (minutes,) = re.findall(r"^TimeoutStartSec=(\d+)min$", unit.read_text(), re.MULTILINE)
    times = {}
    for name in ("iot-mqtt", "ignite"):
        (container,) = of_kind("StatefulSet")[name]["spec"]["template"]["spec"]["containers"]
        probe = container["startupProbe"]
        times[name] = probe["periodSeconds"] * probe["failureThreshold"]
    assert times["iot-mqtt"] == int(minutes) * 60 > times["ignite"]


def test_addresses_are_those_of_the_pods() -> None:
    """Every replica, by the name that its headless service gives it."""
    told = broker_configurations()["k8s"]
    sets = of_kind("StatefulSet")

    def pods(name: str, port: int) -> list[str]:
        return [f"{name}-{number}.{name}:{port}" for number in range(sets[name]["spec"]["replicas"])]

    assert told["grid"]["ignite"]["addresses"] == pods("ignite", PORTS["ignite"]["client"])
    assert told["grid"]["ignite"]["gateway"] == pods("ignite", PORTS["ignite"]["gateway"])
    assert told["registry"]["zookeeper"]["hosts"] == pods("zookeeper", PORTS["zookeeper"]["client"])
    assert told["uplink"]["kafka"]["bootstrap_servers"] == pods("kafka", PORTS["kafka"]["client"])
    (ignite,) = sets["ignite"]["spec"]["template"]["spec"]["containers"]
    environment = {variable["name"]: variable.get("value") for variable in ignite["env"]}
    assert environment["IGNITE_SERVERS"] == ",".join(pods("ignite", PORTS["ignite"]["discovery"]))
    assert environment["IGNITE_QUORUM"] == str(sets["ignite"]["spec"]["replicas"] // 2 + 1)


def test_every_secret_and_configuration_that_is_named_is_described() -> None:
    """In the example, with the keys that are read."""
    secrets = {name: set(document["stringData"]) for name, document in of_kind("Secret").items()}
    for path in MANIFESTS:
        text = path.read_text()
        assert "secretKeyRef" not in text, "a secret is a file, never in the environment"
        for name in re.findall(r"secretName: ([\w-]+)|secret: {name: ([\w-]+)}", text):
            assert "".join(name) in secrets
    auth = broker_configurations()["k8s"]["auth"]
    assert {Path(auth[key]).name for key in ("users_file", "acl_file")} == secrets["iot-mqtt-auth"]


@pytest.mark.parametrize("name", ["iot-mqtt", "ignite", "zookeeper", "kafka"])
def test_each_part_has_certificates_and_no_port_without(name: str) -> None:
    """Brokers, Ignite, ZooKeeper and Kafka."""
    pod = of_kind("StatefulSet")[name]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {"name": "tls", "mountPath": TLS, "readOnly": True} in container["volumeMounts"]
    part = "broker" if name == "iot-mqtt" else name
    secret = next(volume["secret"] for volume in pod["volumes"] if volume["name"] == "tls")
    assert secret == {"secretName": f"iot-mqtt-tls-{part}", "defaultMode": 0o440}
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    if name == "ignite":
        assert environment["IGNITE_TLS"] == TLS
        assert "IGNITE_PLAIN" not in environment
    elif name == "zookeeper":
        assert not re.search(r";\d+", environment["ZOO_SERVERS"])
        told = set(environment["ZOO_CFG_EXTRA"].split())
        assert {"ssl.clientAuth=need", "ssl.quorum.clientAuth=need", "sslQuorum=true"} <= told
        assert f"secureClientPort={PORTS['zookeeper']['client']}" in told
    elif name == "kafka":
        assert environment["KAFKA_SSL_TRUSTSTORE_LOCATION"] == f"{TLS}/ca.crt"


def test_nobody_connects_to_what_is_not_for_him() -> None:
    """Every port of every workload is named by the policy of it; clients' ports alone are for all."""
    policies = of_kind("NetworkPolicy")
    assert policies["nobody"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": []}
    sets = of_kind("StatefulSet")
    assert set(policies) == {"nobody", *sets}
    for name, workload in sets.items():
        spec = policies[name]["spec"]
        assert spec["podSelector"] == {"matchLabels": {"app": name}}
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        named = [port["port"] for rule in spec["ingress"] for port in rule["ports"]]
        assert sorted(named) == sorted(port["containerPort"] for port in container["ports"])
        for_all = [port["port"] for rule in spec["ingress"] if "from" not in rule for port in rule["ports"]]
        assert set(for_all) == ({DEFAULT_PORTS[one] for one in LISTENERS} if name == "iot-mqtt" else set())


# --- images -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_is_made_of_pinned_ones_and_of_files_that_exist(path: Path) -> None:
    """And does not run as root."""
    text = path.read_text()
    stages = re.findall(r"^FROM \S+ AS (\S+)", text, re.MULTILINE)
    for image in set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) - set(stages):
        assert PINNED.fullmatch(image), image
    for sources in re.findall(r"^COPY (?!--from)(?:--chmod=\d+ )?(.+) \S+$", text, re.MULTILINE):
        assert all((ROOT / source).exists() for source in sources.split())
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    assert re.search(r"^STOPSIGNAL SIGTERM$", text, re.MULTILINE)
    exposed = re.search(r"^EXPOSE (.+)$", text, re.MULTILINE)
    expected = IMAGE_PORTS if path.name.startswith("broker") else set(PORTS["ignite"].values())
    assert exposed is not None and {int(port) for port in exposed[1].split()} == expected
    assert (path.parent / f"{path.name}.dockerignore").exists()


def test_the_broker_image_is_told_of_keys_that_exist() -> None:
    """Its environment is configuration too."""
    names = re.findall(r"IOT_MQTT__\w+", (CLUSTER / "docker" / "broker.Dockerfile").read_text())
    assert names and unknown_keys(environment_keys(iter(names))) == []


def test_the_ignite_image_sets_properties_that_are_read() -> None:
    """Those of ignite-server.xml and of the gateway, and it may be executed."""
    script = CLUSTER / "docker" / "ignite-start.sh"
    assert os.access(script, os.X_OK)
    given = set(re.findall(r"-D(iot\.ignite\.[\w.]+)=", script.read_text()))
    read = set(
        re.findall(r"systemProperties\['(iot\.[\w.]+)'\]", (CLUSTER / "config" / "ignite-server.xml").read_text())
    )
    assert given <= read
    documented = set(re.findall(r"^#   (\w+)", script.read_text(), re.MULTILINE)) | {"IOT_GATEWAY_TOKEN"}
    assert documented == set(re.findall(r"\$\{(I\w+):[-?]", script.read_text()))


def test_the_grid_of_kubernetes_syncs_its_log() -> None:
    """What was acknowledged is on the disks of both servers, also when all lose their power at once."""
    (container,) = of_kind("StatefulSet")["ignite"]["spec"]["template"]["spec"]["containers"]
    told = {one["name"]: one.get("value") for one in container["env"]}
    assert told["IGNITE_WAL"] == "FSYNC"


@pytest.mark.parametrize("name", ["ignite-1", "ignite-2", "ignite-3"])
def test_the_grid_of_compose_is_synced_to_disk(name: str) -> None:
    """A power cut of the machine costs nothing that was acknowledged, and each server has a volume of its own."""
    service = SERVICES[name]
    told = service["environment"]
    assert (told["IGNITE_PERSISTENCE"], told["IGNITE_WAL"]) == ("true", "FSYNC")
    assert f"{name}:/data" in service["volumes"]
