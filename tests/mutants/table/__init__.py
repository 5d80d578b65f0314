"""The faults, by the part of the core that they are in."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation
from tests.mutants.table.access import ACCESS
from tests.mutants.table.admin import ADMIN
from tests.mutants.table.cluster import CLUSTER
from tests.mutants.table.codec import CODEC
from tests.mutants.table.devices import DEVICES
from tests.mutants.table.grid import GRID
from tests.mutants.table.plugins import PLUGINS
from tests.mutants.table.publishing import PUBLISHING
from tests.mutants.table.sending import SENDING
from tests.mutants.table.session import SESSION
from tests.mutants.table.sessions import SESSIONS
from tests.mutants.table.uplink import UPLINK

MUTATIONS: Final[tuple[Mutation, ...]] = (
    *SESSION,
    *CODEC,
    *PUBLISHING,
    *SENDING,
    *SESSIONS,
    *GRID,
    *CLUSTER,
    *DEVICES,
    *PLUGINS,
    *UPLINK,
    *ACCESS,
    *ADMIN,
)
