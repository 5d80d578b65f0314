"""Classes of servers as archives: ``python -m iot_mqtt.app.engines.archives`` makes them, ``kinds`` has Java use them.

A server reads, checks and links thousands of classes before it does anything, the same ones at each start. Java keeps
them as they are in memory (class data sharing): here, when one server of each kind has started and ends in order. It
takes an archive again if it is the same Java with the same jars, and reads the jars otherwise.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from iot_mqtt.app.engines.cluster import Cluster
from iot_mqtt.app.engines.errors import EngineError
from iot_mqtt.app.engines.kinds import KINDS
from iot_mqtt.app.engines.places import Places
from iot_mqtt.app.engines.plan import Plan


def make(places: Places) -> None:
    """Make them, or again; nobody sees half of one."""
    plan = Plan.make(ignite=1, zookeeper=1, kafka=1)
    wanted = [places.archive(kind) for kind in KINDS]
    folder = wanted[0].parent
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix="making-") as work:
        making = Path(work)
        cluster = Cluster(making / "cluster", replace(places, making=making))
        try:
            cluster.up(plan)
        finally:
            cluster.down()
        for archive in wanted:
            if (made := making / archive.name).exists():
                made.replace(archive)


if __name__ == "__main__":
    try:
        make(Places.find())
    except (EngineError, OSError) as error:
        sys.exit(str(error))
