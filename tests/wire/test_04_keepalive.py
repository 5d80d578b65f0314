"""Keep alive: closed at one and a half times, not sooner, and the server's own value.

These tests wait, so each asks its question of both versions at once.
"""

from __future__ import annotations

import time

import pytest

from .clauses import clauses
from .conftest import Broker
from .packets import V5, V311


@clauses("MQTT3-3.1.2-24", "MQTT5-3.1.2-22", "MQTT5-3.2.2-22", "MQTT5-4.13.1-1")
def test_a_silent_client_is_closed_at_one_and_a_half_times_its_keep_alive(broker: Broker) -> None:
    """Not before 1.5 s, and soon after; in version 5 with DISCONNECT 0x8D."""
    clients = [broker.connect(version, keep_alive=1) for version in (V311, V5)]
    start = time.monotonic()
    for client in clients:
        broker.refused(client, 0x8D, timeout=4)
        passed = time.monotonic() - start
        assert 1.4 <= passed <= 3.2, f"closed after {passed:.2f} s"


@clauses("MQTT3-3.1.2-24", "MQTT5-3.1.2-22")
def test_any_packet_keeps_the_connection_alive(broker: Broker) -> None:
    """PUBLISH counts like PINGREQ; a client whose keep alive is 0 may be silent for as long as it likes."""
    clients = [broker.connect(version, keep_alive=1) for version in (V311, V5)]
    unlimited = [broker.connect(version, keep_alive=0) for version in (V311, V5)]
    for _ in range(3):
        time.sleep(0.8)
        for client in clients:
            client.publish(broker.topic(), "x")
    for client in clients + unlimited:
        client.ping()


@clauses("MQTT3-3.1.2-24", "MQTT5-3.1.2-22")
def test_packets_from_the_server_do_not_keep_a_silent_client_alive(broker: Broker) -> None:
    """Only what the client sends counts."""
    topic = broker.topic()
    clients = [broker.connect(version, keep_alive=1) for version in (V311, V5)]
    for client in clients:
        client.subscribe(topic)
    publisher = broker.connect(V5)
    end = time.monotonic() + 2.8
    while time.monotonic() < end:
        publisher.publish(topic, "x")
        time.sleep(0.2)
    for client in clients:
        client.closed(timeout=0.7)


@clauses("MQTT5-3.1.2-22")
@pytest.mark.variant("server_keep_alive")
def test_the_server_keep_alive_is_announced_and_holds(broker: Broker) -> None:
    """The client asked for a minute, was told 2 s and is closed at 3 s."""
    client = broker.connect(V5, keep_alive=60)
    assert client.connack.properties.get("server_keep_alive") == 2
    start = time.monotonic()
    broker.refused(client, 0x8D, timeout=6)
    passed = time.monotonic() - start
    assert 2.9 <= passed <= 4.8, f"closed after {passed:.2f} s"
