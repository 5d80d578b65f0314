"""Faults in ``iot_mqtt.plugins``: what codecs of others may cost the node."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation

_BRIDGE: Final = "iot_mqtt/plugins/process/bridge.py"

PLUGINS: Final = (
    Mutation(
        "plugins.mark-of-an-ended-worker",
        _BRIDGE,
        "        self._mark.close()\n",
        "",
        ("tests/unit/plugins/test_bridge.py",),
        "each worker that ends leaves a descriptor, until the node can open no file",
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
