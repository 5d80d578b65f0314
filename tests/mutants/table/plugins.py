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
)
