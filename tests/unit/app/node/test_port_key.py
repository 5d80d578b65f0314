"""Errors of a port that cannot be opened name its keys."""

from __future__ import annotations

import pytest
from twisted.internet.error import CannotListenError

from iot_mqtt.app.node.port_key import named_by
from iot_mqtt.pipeline import TlsConfigurationError


def test_the_key_is_that_of_what_is_wrong() -> None:
    """The port, or its TLS."""
    with pytest.raises(CannotListenError, match=r"^listeners\.mqtts\.port: .*in use"), named_by("listeners.mqtts"):
        raise CannotListenError("127.0.0.1", 8883, OSError("in use"))
    with pytest.raises(TlsConfigurationError, match=r"^listeners\.mqtts\.tls: crl: "), named_by("listeners.mqtts"):
        raise TlsConfigurationError("crl: a.pem is of another")
