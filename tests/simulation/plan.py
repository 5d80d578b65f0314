"""What is to happen in a world, as a list of acts that each have a source of randomness of their own.

An act knows its place in the whole plan. What it draws comes from the seed and that place, so a plan from which others
were taken out has the same acts as before; how long messages take is drawn anew behind each act, from its place too.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

#: Steps of the storm. More find no more in the same time: most of what goes wrong does so soon.
STEPS: Final = 45

#: How often troubles come, in proportion; of nodes and what is between them.
TROUBLES: Final = {
    "kill": 6,
    "stop": 3,
    "pause": 6,
    "part": 5,
    "cut": 5,
    "weather": 6,
    "suspend": 3,
    "expire": 2,
    "slow": 4,
    "shut": 2,
    "break_flow": 3,
    "turn_clock": 3,
}
#: Of servers.
SERVER_TROUBLES: Final = {
    "server_crash": 4,
    "server_pause": 6,
    "server_cut": 3,
    "server_lag": 4,
    "servers_full": 2,
}
#: Of servers with disks.
DISK_TROUBLES: Final = {"servers_off": 2, "site_off": 2}
#: Of the platform.
PLATFORM_TROUBLES: Final = {"platform_away": 4, "platform_slow": 3}
ALL_TROUBLES: Final = frozenset((*TROUBLES, *SERVER_TROUBLES, *DISK_TROUBLES, *PLATFORM_TROUBLES))
#: Troubles that take two nodes.
OF_TWO: Final = frozenset(("part", "cut", "weather"))


class Act(NamedTuple):
    """One thing to happen."""

    place: int
    name: str

    def rng(self, seed: int, what: str = "act") -> random.Random:
        return random.Random(f"{seed}/{self.place}/{what}")

    def __str__(self) -> str:
        return f"{self.place} {self.name}"


class Shape(NamedTuple):
    """Of the world of a seed."""

    nodes: int
    #: There are Ignite servers under it.
    served: bool
    #: They keep what they have on disk.
    disks: bool
    #: Members come and go.
    changing: bool
    #: Gateways tell whose connections begin and end.
    told: bool
    #: Nodes are held up now and then, for a moment.
    busy: bool
    #: There is a platform that things go up to, and whether acknowledgements wait for it.
    platform: bool
    waits: bool
    #: All is well, but that nodes stop and start again, and everybody goes from node to node all the time.
    hopping: bool = False


#: How many worlds have servers: they find more, and take longer.
SERVED: Final = 0.25
#: How many of these have disks.
DISKS: Final = 0.5
#: How many have busy nodes.
BUSY: Final = 0.15
#: How many have a platform, and in how many of these it is waited for.
PLATFORM: Final = 0.25
WAITS: Final = 0.4
#: How often a node stops where all hop.
STOPS: Final = 0.05


def shape_of(
    seed: int, *, served: bool = False, platform: bool | None = None, disks: bool | None = None, hopping: bool = False
) -> Shape:
    """``served``: there are servers, whatever the dice say; ``platform``: the same, and False: there is none.

    ``disks``: what servers have is on disk, if there are servers, or in memory.
    """
    rng = random.Random(f"{seed}/shape")
    nodes, chance = rng.choice((2, 2, 3, 3, 3, 4)), rng.random()
    changing, busy = rng.random() < 0.4, rng.random() < BUSY
    upward = random.Random(f"{seed}/platform")
    drawn, waits = upward.random() < PLATFORM, upward.random() < WAITS
    there = drawn if platform is None else platform
    kept = random.Random(f"{seed}/disks").random() < DISKS if disks is None else disks
    servers = served or chance < SERVED
    told = seed % 5 in (2, 3)
    if hopping:
        changing = busy = False
    return Shape(nodes, servers, servers and kept, changing, told, busy, there, there and waits, hopping)


def plan_of(seed: int, shape: Shape, steps: int = STEPS) -> list[Act]:
    """All of a story but its beginning and its end. The storm in which members have changed is shorter."""
    rng = random.Random(f"{seed}/plan")
    names: list[str] = []

    def storm(count: int) -> None:
        troubles = {
            **TROUBLES,
            **(SERVER_TROUBLES if shape.served else {}),
            **(DISK_TROUBLES if shape.disks else {}),
            **(PLATFORM_TROUBLES if shape.platform else {}),
        }
        for _ in range(count):
            if shape.hopping:
                stop = ("stop",) if rng.random() < STOPS else ()
                names.extend(("publish", "hop", *stop, "recover", "time"))
                continue
            names.extend(("publish", "subscribers", "mortals"))
            if rng.random() < 0.25 + 0.1 * shape.served:
                names.extend(rng.choices(list(troubles), list(troubles.values())))
            names.append("recover")
            if rng.random() < 0.08:
                names.append("calm")
            names.append("time")

    after = steps * 5 // 12
    storm(steps)
    if shape.changing:
        if rng.random() < 0.5:
            names.append("enter")
            storm(after)
        names.append("leave")
        # Sooner or later than it is cleaned up after.
        names.extend(("publish", "half_a_second") * rng.choice((1, 10, 40)))
        names.extend(("reborn",) * 3)
        names.append("newcomers")
        storm(after)
    return [Act(place, name) for place, name in enumerate(names)]


def places(acts: Sequence[Act]) -> str:
    """As ``--only`` takes them: ``3,17-20``."""
    found: list[str] = []
    at = 0
    while at < len(acts):
        end = at
        while end + 1 < len(acts) and acts[end + 1].place == acts[end].place + 1:
            end += 1
        first, last = acts[at].place, acts[end].place
        found.append(str(first) if first == last else f"{first}-{last}")
        at = end + 1
    return ",".join(found) or "none"


def only(acts: Sequence[Act], chosen: str) -> list[Act]:
    """Those at the places that ``places`` has written."""
    wanted: set[int] = set()
    for part in chosen.split(",") if chosen != "none" else ():
        first, _, last = part.partition("-")
        wanted.update(range(int(first), int(last or first) + 1))
    return [act for act in acts if act.place in wanted]
