"""Parametrisations by protocol version."""

from __future__ import annotations

import pytest

from .packets import V5, V31, V311

#: MQTT 3.1.1 and 5.0.
both = pytest.mark.parametrize("version", [V311, V5], ids=["3.1.1", "5"])
#: MQTT 3.1, 3.1.1 and 5.0.
every = pytest.mark.parametrize("version", [V31, V311, V5], ids=["3.1", "3.1.1", "5"])
#: QoS 1 and 2.
acknowledged = pytest.mark.parametrize("qos", [1, 2])
#: QoS 0, 1 and 2.
any_qos = pytest.mark.parametrize("qos", [0, 1, 2])
