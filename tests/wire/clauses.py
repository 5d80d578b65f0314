"""The tag that ties a test to the normative statements it covers."""

from __future__ import annotations

import pytest

#: ``@clauses("MQTT5-3.1.2-4", "MQTT3-3.1.2-6")``: [MQTT-3.1.2-4] of MQTT 5.0 and [MQTT-3.1.2-6] of MQTT 3.1.1.
#: `conformance.py` reads these decorators (and the `clauses:` field of table cases) from the source.
clauses = pytest.mark.clauses
