"""By default a node has room for the dashboard in twenty browsers, behind one address."""

from iot_mqtt.admin.settings import AdminSettings
from iot_mqtt.admin.streams import Streams


def test_twenty_browsers_have_a_stream_and_two_more_connections_each() -> None:
    """All at once."""
    streams = Streams()
    for _ in range(20):
        streams.make(lambda: None)
    settings = AdminSettings()
    assert settings.max_connections >= settings.max_connections_per_address >= 3 * 20
