"""``iot-mqtt cluster``: real Ignite, ZooKeeper and Kafka servers on this machine, for development and for tests.

They listen on the loopback interface and are ended by ``cluster down``, not by Ctrl-C. What a production cluster is
made of is in ``cluster/compose`` and ``cluster/k8s``.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from iot_mqtt.app.engines import (
    Cluster,
    EngineError,
    Places,
    Plan,
    Status,
    archives,
    shipped,
    snippet,
    topics,
)
from iot_mqtt.app.engines.certificates import issue
from iot_mqtt.app.engines.cluster import READY_SECONDS
from iot_mqtt.app.terminal import field, fields, numbers, print_items

#: What ``up`` makes where nothing was said and nothing is there.
_NODES, _ZOOKEEPER, _KAFKA, _PERSISTENCE, _SYNCED, _SECURE = 3, 3, True, True, False, False
_PLAIN = """
This cluster speaks plain text, on the loopback interface only. Whoever may open a socket on this machine can read and
change everything in it: Ignite's discovery, communication and thin clients, ZooKeeper and Kafka ask nobody who he is,
and the token of the messaging gateway can be read on its way. `iot-mqtt cluster up --secure` has certificates for all.
"""
_SIGNALS = ("STOP", "CONT", "KILL", "TERM")
_COLUMNS = (
    *fields(name="NAME", state="STATE", role="ROLE"),
    *numbers(sees="SEES", copies_missing="MISSING", pid="PID"),
    field("ports"),
)


@click.group(name="cluster")
def cluster_group() -> None:
    """Start and stop the servers that a cluster stands on: Apache Ignite, ZooKeeper, Kafka.

    They run on this machine, from the jars that `make cluster-jars` has made in a checkout, and `iot-mqtt cluster jars`
    where the package was installed.
    """


@cluster_group.command()
def jars() -> None:
    """Make the jars that the servers are started from, with Maven and a JDK. Needs the network the first time.

    Beside them come archives of their classes, with which servers start sooner.
    """
    places = Places.find()
    click.echo(shipped.make(places.sources))
    try:
        archives.make(places)
    except (EngineError, OSError) as error:
        click.echo(f"servers will start more slowly: there are no archives: {error}", err=True)


def _on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command its cluster as the first argument."""

    @click.option(
        "--dir",
        "folder",
        type=click.Path(file_okay=False, path_type=Path),
        envvar="IOT_MQTT_CLUSTER_DIR",
        help="Directory of the cluster; .cluster in the checkout, or where you are, unless given.",
    )
    @wraps(command)
    def with_cluster(folder: Path | None, **arguments: Any) -> None:
        places = Places.find()
        command(Cluster(folder or places.state, places, say=click.echo), **arguments)

    return with_cluster


@cluster_group.command()
@_on_cluster
@click.option("--nodes", type=click.IntRange(1, 9), help=f"Ignite servers.  [default: {_NODES}]")
@click.option("--zookeeper", type=click.Choice(["1", "3"]), help=f"ZooKeeper servers.  [default: {_ZOOKEEPER}]")
@click.option("--kafka/--no-kafka", default=None, help="Start Kafka, or do not.  [default: --kafka]")
@click.option("--persistence/--memory", default=None, help="Keep the grid on disk (the default), or in memory.")
@click.option(
    "--synced/--cached",
    default=None,
    help="Each commit is synced to the disk, and survives the machine's power; or the processes.  [default: --cached]",
)
@click.option(
    "--secure/--plain",
    default=None,
    help="TLS between all parts, with an authority of its own; or plain text.  [default: --plain]",
)
@click.option("--standard-ports", is_flag=True, help="Ports that everybody knows (2181, 10800, ...), not free ones.")
def up(
    cluster: Cluster,
    nodes: int | None,
    zookeeper: str | None,
    kafka: bool | None,
    persistence: bool | None,
    synced: bool | None,
    standard_ports: bool,
    secure: bool | None,
) -> None:
    """Start the servers, and say what a broker needs to use them.

    What runs already is left alone. A cluster that was stopped comes back as it was unless told otherwise.
    """
    before = cluster.planned()
    plan = Plan.make(
        ignite=_first(nodes, before and before.count("ignite"), _NODES),
        zookeeper=_first(zookeeper and int(zookeeper), before and before.count("zookeeper"), _ZOOKEEPER),
        kafka=_first(kafka, before and bool(before.count("kafka")), _KAFKA),
        persistence=_first(persistence, before and before.persistence, _PERSISTENCE),
        synced=_first(synced, before and before.synced, _SYNCED),
        standard_ports=standard_ports,
        tls=str(cluster.folder / "tls") if _first(secure, before and before.tls is not None, _SECURE) else None,
    )
    if plan.synced and not plan.persistence:
        raise EngineError("what is in memory only cannot be synced: --synced or --memory, not both")
    if before:
        if before.described() != plan.described() or (standard_ports and before.members != plan.members):
            raise EngineError(
                f"{cluster.folder} has another cluster ({before.described()}): remove it, with its data, by "
                "`iot-mqtt cluster down --purge`, or name another directory with --dir"
            )
        plan = before
    there = [member.name for member in cluster.running()]
    if there:
        click.echo(f"running already: {', '.join(there)}")
    if any(member.kind == "kafka" for member in cluster.up(plan)):
        topics.make(plan)
    if plan.tls is None:
        click.echo(_PLAIN, err=True)
    click.echo(f"\n{plan.described()}, in {cluster.folder}. Start a broker with\n")
    click.echo(f"  iot-mqtt serve --config {cluster.broker_file} --set node.id=node-1\n\nor with these options:\n")
    for option in snippet.options(plan):
        click.echo(f"  {option}")


@cluster_group.command()
@_on_cluster
@click.option("--purge", is_flag=True, help="Also remove the directory, with all data and logs.")
def down(cluster: Cluster, purge: bool) -> None:
    """Stop all servers. Their ports, and the data of those that keep any, stay for the next `up`."""
    stopped = cluster.down(purge=purge)
    click.echo(f"stopped: {', '.join(member.name for member in stopped)}" if stopped else "nothing was running")


@cluster_group.command()
@_on_cluster
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(cluster: Cluster, as_json: bool) -> None:
    """Show what runs, on which ports, and as what."""
    items = [_shown(one) for one in cluster.status()]
    print_items(_COLUMNS, items, as_json)


@cluster_group.command()
@_on_cluster
@click.argument("what")
@click.option("--signal", "name", type=click.Choice(_SIGNALS, case_sensitive=False), default="KILL", show_default=True)
def kill(cluster: Cluster, what: str, name: str) -> None:
    """Send a signal to WHAT: a server (ignite-2), a kind (kafka), or a role (zookeeper-leader).

    KILL is what a power cut does, STOP makes a server silent until CONT. `start` brings back what has ended.
    """
    number = signal.Signals[f"SIG{name.upper()}"]
    reached = [member.name for member in cluster.find(what) if cluster.signal(member, number)]
    if not reached:
        raise EngineError(f"{what} does not run: `iot-mqtt cluster start {what}` starts it")
    click.echo(f"{number.name} to {', '.join(reached)}")


@cluster_group.command()
@_on_cluster
@click.argument("what", nargs=-1)
@click.option("--timeout", type=float, default=READY_SECONDS, show_default=True, help="Seconds to wait for them.")
def start(cluster: Cluster, what: tuple[str, ...], timeout: float) -> None:
    """Start WHAT again (all that does not run unless named), on the ports and data of before.

    It returns when all of it works, also what ran before. Servers that are not ready in time go on.
    """
    members = [member for word in what for member in cluster.find(word)] if what else list(cluster.plan.members)
    if not cluster.start(members, timeout=timeout):
        click.echo("running already")


@cluster_group.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.argument("names", nargs=-1, required=True)
@click.option("--host", "hosts", multiple=True, required=True, help="Name or address they are reached at; repeat it.")
def certificates(folder: Path, names: tuple[str, ...], hosts: tuple[str, ...]) -> None:
    """Make certificates in FOLDER for the parts of a cluster elsewhere, one for each of NAMES.

    FOLDER/ca.key signs them; keep it where no server is. Each NAME gets a directory with tls.crt, tls.key, ca.crt and
    tls.pem. What is there already stays.
    """
    issue(folder, names, hosts)
    click.echo(f"{folder}/ca.crt and, in {folder}: {', '.join(names)}")


def _first(*values: Any) -> Any:
    """The first value that was given."""
    return next(value for value in values if value is not None)


def _shown(status: Status) -> dict[str, object]:
    return {
        "name": status.member.name,
        "kind": status.member.kind,
        "state": status.state,
        "alive": status.pid is not None,
        "pid": status.pid,
        "role": status.role.name if status.role else None,
        "sees": status.role.sees if status.role else None,
        "copies_missing": status.role.copies_missing if status.role else None,
        "ports": dict(status.member.ports),
        "log": str(status.log),
    }
