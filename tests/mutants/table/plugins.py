"""Faults in ``iot_mqtt.plugins``: what codecs of others may cost the node."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation

_BRIDGE: Final = "iot_mqtt/plugins/process/bridge.py"

PLUGINS: Final = (
    Mutation(
        "plugins.mark-of-an-ended-worker",
        _BRIDGE,
        "            os.close(mark)\n",
        "            pass\n",
        ("tests/unit/plugins/test_bridge.py",),
        "each worker that ends leaves a descriptor, until the node can open no file",
    ),
    Mutation(
        "plugins.mark-of-any-size",
        "iot_mqtt/plugins/process/launch.py",
        "fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL",
        "fcntl.F_SEAL_SEAL",
        ("tests/unit/plugins/test_bridge.py",),
        "a codec takes what memory it likes, in none of its limits",
    ),
    Mutation(
        "plugins.name-of-another",
        "iot_mqtt/plugins/installing.py",
        "if not other.is_of(place.distribution):",
        "if other.bundled and not other.is_of(place.distribution):",
        ("tests/unit/plugins/test_installing.py",),
        "the next reload of a vendor's plugin loads what another one has brought",
    ),
    Mutation(
        "plugins.half-started-worker",
        _BRIDGE,
        "            except OSError:\n                self.kill()\n                raise",
        "            except OSError:\n                raise",
        ("tests/unit/plugins/test_bridge.py",),
        "a node that is short of descriptors loses more of them each time that it starts a worker in vain",
    ),
    Mutation(
        "plugins.reasons-without-end",
        "iot_mqtt/devices/link/counters.py",
        "known = reason in self.refused or len(self.refused) < MAX_REASONS",
        "known = True",
        ("tests/unit/devices/link/test_counters.py",),
        "a codec that puts a serial number into its reasons makes a time series of each",
    ),
    Mutation(
        "plugins.alarm-while-loading",
        "iot_mqtt/plugins/plugin.py",
        'return "starting" if self.busy or self.loading else "refused"',
        'return "refused"',
        ("tests/unit/plugins/test_catalog.py",),
        "operators are called while a sound plugin is being enabled",
    ),
)
