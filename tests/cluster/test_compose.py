"""The cluster of ``cluster/compose`` without Docker: what a service is told there, in a root directory of its own.

Each service sees the paths, names and ports of its container: an overlay over this machine's files, and one network
that they share. What the images' own scripts do, which are not here, is done by ``zoo_cfg``, and by the class of Kafka
that its image starts, too. One server of each kind is started. It needs root, as the tests of a split network do.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import pytest
import yaml

from tests.cluster.sites import unavailable

ROOT: Final = Path(__file__).parents[2]
COMPOSE: Final = ROOT / "cluster" / "compose"
JARS: Final = ROOT / "cluster" / "target" / "jars"
SERVICES: Final[Mapping[str, Any]] = yaml.safe_load((COMPOSE / "docker-compose.yml").read_text())["services"]
#: A cluster of one server of each kind; everything else is as it is written there.
ALONE: Final = {"IGNITE_SERVERS": "ignite-1:11000", "IGNITE_QUORUM": "1", "IGNITE_HEAP": "256m"}
STARTING: Final = 90.0
#: Ends with the test session, also when that is killed.
MORTAL: Final = ("setpriv", "--pdeathsig", "KILL")

WHY_NOT: Final = unavailable()
pytestmark = [
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.timeout(400),
]

#: What the image runs: a configuration made of the environment, a formatted disk, and the server.
KAFKA = """
set -e
mkdir -p /tmp/kafka-empty && cd /opt/kafka/config
touch /tmp/kafka-empty/server.properties /tmp/kafka-empty/log4j.properties /tmp/kafka-empty/tools-log4j.properties
eval "$JAVA kafka.docker.KafkaDockerWrapper setup --default-configs-dir /tmp/kafka-empty \\
    --mounted-configs-dir /data --final-configs-dir /opt/kafka/config"
eval "exec $JAVA kafka.Kafka /opt/kafka/config/server.properties"
"""
#: The root directory of a service: this machine's, with what its image and its volumes would bring over it.
ROOTED = """
set -e
hostname "$NAME"
mount -t tmpfs tmpfs "$SPACE"
mkdir "$SPACE/upper" "$SPACE/work" "$SPACE/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$SPACE/upper,workdir=$SPACE/work" "$SPACE/root"
for shared in /proc /dev /tmp "$CHECKOUT"; do
    mkdir -p "$SPACE/root$shared"
    mount --rbind "$shared" "$SPACE/root$shared"
done
cp "$HOSTS" "$SPACE/root/etc/hosts"
mkdir -p "$SPACE/root/etc/iot-mqtt"
[ -z "$TLS" ] || ln -s "$TLS" "$SPACE/root/etc/iot-mqtt/tls"
cp "$CHECKOUT/cluster/compose/broker.yaml" "$SPACE/root/etc/iot-mqtt/broker.yaml"
mkdir -p "$SPACE/root/opt/iot-mqtt" "$SPACE/root/data" "$SPACE/root/var/lib/kafka/data" "$SPACE/root/opt/kafka/config"
ln -s "$CHECKOUT/cluster/target/jars/ignite" "$SPACE/root/opt/iot-mqtt/jars"
ln -s "$CHECKOUT/cluster/config" "$SPACE/root/opt/iot-mqtt/config"
exec chroot "$SPACE/root" sh -c "cd /data && exec $COMMAND"
"""


class Service:
    """One container, as far as it is one."""

    def __init__(self, name: str, command: str, network: int, folder: Path, more: Mapping[str, str]) -> None:
        self.name = name
        space = Path(mkdtemp(prefix=name, dir=folder))
        self.log = space.with_suffix(".log")
        part = name.partition("-")[0]
        tls = folder / "tls" / part
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": "/tmp",
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1",
            **{key: str(value) for key, value in SERVICES[name].get("environment", {}).items()},
            **more,
            "NAME": name,
            "SPACE": str(space),
            "CHECKOUT": str(ROOT),
            "HOSTS": str(folder / "hosts"),
            "TLS": str(tls) if tls.exists() else "",
            "COMMAND": command,
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *MORTAL,
                    "nsenter",
                    f"--net=/proc/{network}/ns/net",
                    "unshare",
                    "--mount",
                    "--uts",
                    "sh",
                    "-c",
                    ROOTED,
                ],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=50)

    def done(self) -> None:
        """Wait for one that ends by itself."""
        assert self.process.wait(timeout=STARTING) == 0, self.log.read_text()[-4000:]


class Containers:
    """Those of one test, in a network that nobody else sees."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: Where the programs of this checkout come first.
        self.path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._running: list[Service] = []
        (folder / "hosts").write_text(f"127.0.0.1 localhost {' '.join(SERVICES)}\n")
        self._network = subprocess.Popen(
            [*MORTAL, "unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep 1000"],
            stdout=subprocess.PIPE,
        )
        assert self._network.stdout is not None and self._network.stdout.readline() == b"up\n"

    def start(self, name: str, command: str, **more: str) -> Service:
        self._running.append(Service(name, command, self._network.pid, self.folder, more))
        return self._running[-1]

    def asked(self, *command: str, seconds: float = 30) -> str:
        """What a program says in their network."""
        done = subprocess.run(
            ["nsenter", f"--net=/proc/{self._network.pid}/ns/net", *command],
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": self.path},
            timeout=seconds,
            check=False,
        )
        return done.stdout + done.stderr

    def healthy(self, service: Service) -> None:
        """Wait until its health check says so, in its own words."""
        check = SERVICES[service.name]["healthcheck"]["test"]
        assert check[0] == "CMD"
        words = [word.replace("/etc/iot-mqtt/tls", str(self.folder / "tls" / "broker")) for word in check[1:]]
        words[0] = sys.executable if words[0] == "python" else words[0]
        end = time.monotonic() + STARTING
        while self.asked(*words):
            assert service.process.poll() is None and time.monotonic() < end, service.log.read_text()[-4000:]
            time.sleep(0.2)

    def end(self) -> None:
        for service in self._running:
            service.end()
        self._network.kill()
        self._network.wait()


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Containers]:
    found = Containers(tmp_path)
    try:
        yield found
    finally:
        found.end()


def zoo_cfg(environment: Mapping[str, str]) -> str:
    """What the image's ``docker-entrypoint.sh`` makes of its environment."""
    told = {"dataDir": "/data", "dataLogDir": "/data"}
    for key in ("tickTime", "initLimit", "syncLimit", "maxClientCnxns"):
        told[key] = environment["ZOO_" + re.sub(r"(?=[A-Z])", "_", key).upper()]
    lines = [f"{key}={value}" for key, value in told.items()]
    servers = re.sub(r"\$\{\w+:-(.*)\}", r"\1", environment["ZOO_SERVERS"])
    return "\n".join([*lines, *servers.split(), *environment["ZOO_CFG_EXTRA"].split(), ""])


def java(kind: str, words: str, heap: int = 128) -> str:
    return f"java -Xmx{heap}m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp '{JARS}/{kind}/*' {words}"


#: In TLS 1.3 a client is done before the server has looked at its certificate: who is refused hears it as an answer.
HANDSHAKE = """
import socket, ssl, sys
port, ca, *mine = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
if mine:
    context.load_cert_chain(*mine)
try:
    with socket.create_connection(("127.0.0.1", int(port)), 10) as plain:
        secure = context.wrap_socket(plain, server_hostname="127.0.0.1")
        secure.settimeout(float(1 if mine else 10))
        print("taken" if secure.recv(1) else "refused")
except TimeoutError:
    print("taken")
except OSError as error:
    print("refused", error)
"""
#: What an operator does first, a device then, and what becomes of its message: it goes up.
USING = """
set -e
echo dull-green-7 | iot-mqtt ctl users add press-7 --password-stdin
mqtt="mosquitto_pub -h broker-1 -p 8883 --cafile /etc/iot-mqtt/tls/ca.crt -t up/press-7/t -m 7"
$mqtt -q 1 -i press-7 -u press-7 -P dull-green-7
! $mqtt -q 1 -i nobody
for _ in $(seq 100); do
    iot-mqtt ctl --json uplink status >uplink.json
    ! grep -q '"safe": 1' uplink.json || exit 0
done
exit 1
"""


def test_the_cluster_of_compose_works_as_it_is_written(containers: Containers) -> None:
    """From its certificates to a message in Kafka; and nothing answers who shows no certificate of it."""
    tls = containers.folder / "tls"
    containers.start("certificates", f"{COMPOSE}/certificates.sh {tls}").done()
    (containers.folder / "zoo.cfg").write_text(zoo_cfg(SERVICES["zookeeper-1"]["environment"]))
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    parts = [
        containers.start(
            "zookeeper-1",
            java("zookeeper", f"-Dzookeeper.admin.enableServer=false {main} {containers.folder}/zoo.cfg"),
        ),
        containers.start("ignite-1", f"{ROOT}/cluster/docker/ignite-start.sh", **ALONE),
        containers.start(
            "kafka",
            f"sh -c {shlex.quote(KAFKA)}",
            CLUSTER_ID="5L6g3nShT-eMCtK--X86sw",
            JAVA=java("kafka", "", 256),
        ),
    ]
    for part in parts:
        containers.healthy(part)
    command = shlex.join(["iot-mqtt", *SERVICES["broker-1"]["command"]])
    more = {
        "IOT_MQTT__NODE__DATA_DIR": str(containers.folder / "broker"),
        "IOT_MQTT__REGISTRY__ZOOKEEPER__HOSTS": "[zookeeper-1:2181]",
    }
    containers.healthy(containers.start("broker-1", command, **more))
    ca, own = str(tls / "broker" / "ca.crt"), [str(tls / "broker" / name) for name in ("tls.crt", "tls.key")]
    for port in (2181, 10800, 10900, 9092, 19092):
        shake = (sys.executable, "-c", HANDSHAKE, str(port), ca)
        assert containers.asked(*shake, *own) == "taken\n", port
        assert containers.asked(*shake).startswith("refused"), port
    containers.start("broker-1", f"bash -c {shlex.quote(USING)}", **more).done()
