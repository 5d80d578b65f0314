"""Who may speak for others at the broker's ports: load balancers with their PROXY headers, and pages of the web."""

from __future__ import annotations

import base64
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import StartBroker, brokers
from systemkit.users import call
from systemkit.waiting import wait_until

from tests.ports import free_port

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="ports are configured differently there")

#: The load balancer's address, and one of somebody who would like to be it.
BALANCER, STRANGER = "127.0.5.1", "127.0.5.2"
RULES = "[user plc-7]\nallow all plc-7/#\n"
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a port behind a load balancer that checks certificates, and WebSocket ports."""
    folder = tmp_path_factory.mktemp("behind")
    (folder / "acl").write_text(RULES)
    ports = {name: free_port() for name in ("behind", "app", "any")}
    (folder / "application.yaml").write_text(
        f"""
        listeners:
          behind: {{protocol: mqtt, port: {ports["behind"]}, proxy_protocol: true, trusted_proxies: [127.0.5.1/32]}}
          app: {{protocol: websocket, port: {ports["app"]}, allowed_origins: ['https://scada.example']}}
          any: {{protocol: websocket, port: {ports["any"]}, allowed_origins: ['*']}}
        auth: {{certificate_as_user: true, acl_file: acl}}
        doors: {{flapping_count: 3, address_burst: 20, address_rate: 0.1}}
        """
    )

    with brokers(folder) as start:
        broker = start(config=folder / "application.yaml")
        broker.ports |= ports
        yield broker


# --- PROXY headers ----------------------------------------------------------------------------------------


def _header(name: str | None = None, *, verify: int = 0, client: str = "198.51.100.7") -> bytes:
    """A v2 header with an address, and perhaps the name of the certificate that the client showed."""
    content = socket.inet_aton(client) + socket.inet_aton("203.0.113.5") + (51234).to_bytes(2, "big") * 2
    if name is not None:
        common_name = b"\x22" + len(name).to_bytes(2, "big") + name.encode()
        ssl = b"\x07" + verify.to_bytes(4, "big") + common_name
        content += b"\x20" + len(ssl).to_bytes(2, "big") + ssl
    return SIGNATURE + b"\x21\x11" + len(content).to_bytes(2, "big") + content


def _behind(broker: BrokerProcess, source: str) -> Plain:
    sock = socket.create_connection(("127.0.0.1", broker.ports["behind"]), 5, source_address=(source, 0))
    return Plain(0, version=5, sock=sock)


def _faults(broker: BrokerProcess, reason: str) -> float:
    samples = broker.metrics()
    assert samples is not None
    return samples.get(f'iot_mqtt_protocol_errors_total{{reason="{reason}"}}', 0.0)


def _may_publish(client: Plain, topic: str) -> bool:
    client.publish(topic, b"", qos=1, packet_id=1)
    return client.expect(wire.PUBACK).reason() != 0x87


def test_the_balancer_is_believed(behind: BrokerProcess) -> None:
    """It says who the client is, and what its certificate says if it was in order."""
    with _behind(behind, BALANCER) as client:
        client.send(_header("plc-7"))
        client.connect("known")
        assert _may_publish(client, "plc-7/x")
    with _behind(behind, BALANCER) as client:
        client.send(_header("plc-7", verify=1))
        client.connect("unverified")
        assert not _may_publish(client, "plc-7/x")


@pytest.mark.parametrize("begins", ["a header", "no header", "nothing"])
def test_a_stranger_is_no_balancer(behind: BrokerProcess, begins: str) -> None:
    """Whoever else comes to that port is closed and counted: no name of a certificate is taken from him."""
    before = _faults(behind, "UNTRUSTED_PROXY")
    with _behind(behind, STRANGER) as client:
        if begins != "nothing":
            client.send((_header("plc-7") if begins == "a header" else b"") + wire.connect("forger", version=5))
        assert client.until_closed() == []
    wait_until(lambda: _faults(behind, "UNTRUSTED_PROXY") - before == 1)
    assert STRANGER in behind.log_text()


def test_the_balancer_without_a_header_is_refused(behind: BrokerProcess) -> None:
    """Or its clients would have its address."""
    before = _faults(behind, "BAD_PROXY_HEADER")
    with _behind(behind, BALANCER) as client:
        client.send(wire.connect("naked", version=5))
        assert client.until_closed() == []
    wait_until(lambda: _faults(behind, "BAD_PROXY_HEADER") - before == 1)


def test_who_is_banned_is_out_within_a_second(behind: BrokerProcess) -> None:
    """Whoever is there is told why; whoever comes is closed without a word, by the address in the header, too."""
    client = _direct(behind)
    client.connect("there")
    status, ban = call(behind, "POST", "bans", {"address": "127.0.5.0/28", "seconds": 60, "reason": "loud"})
    assert status == 200
    began = time.monotonic()
    farewell = client.expect(wire.DISCONNECT)
    assert (farewell.reason(), b"banned: loud" in farewell.body) == (0x98, True)
    with _direct(behind) as another:
        assert another.until_closed() == []
    assert time.monotonic() - began < 1
    assert call(behind, "DELETE", f"bans/{ban['id']}")[0] == 204
    with _direct(behind) as another:
        another.connect("back")
    assert call(behind, "POST", "bans", {"address": "198.51.100.9"})[0] == 200
    for address, let_in in (("198.51.100.9", False), ("198.51.100.10", True)):
        with _behind(behind, BALANCER) as client:
            client.send(_header(client=address))
            if let_in:
                client.connect("other")
            else:
                assert client.until_closed() == []
    samples = behind.metrics()
    assert samples is not None
    assert samples['iot_mqtt_listener_refusals_total{listener="mqtt",reason="banned"}'] == 1
    assert samples['iot_mqtt_listener_refusals_total{listener="behind",reason="banned"}'] == 1


def test_who_flaps_behind_a_balancer_is_banned_and_not_who_is_behind_the_same_address(behind: BrokerProcess) -> None:
    """It is in the list, with its cause; and an address is as fast as it may be, wherever it comes from."""

    def come(client_id: str, address: str = "198.51.100.20") -> int | None:
        with _behind(behind, BALANCER) as client:
            client.send(_header(client=address) + wire.connect(client_id, version=5))
            answer = client.receive()
            return None if answer is None else answer.reason()

    codes = []
    for _ in range(8):
        codes.append(come("flapping"))
        if codes[-1]:
            break
    assert codes == [0] * len(codes[:-1]) + [0x8A] and 4 <= len(codes) <= 6
    assert come("other") == 0
    assert come("flapping", "198.51.100.21") == 0
    found = call(behind, "GET", "bans")[1]["items"]
    assert [(one["client"], one["cause"]) for one in found if one["address"] == "198.51.100.20"] == [
        ("flapping", "flapping")
    ]
    assert [come(f"c{number}") for number in range(20)][-1] is None
    assert come("c", "198.51.100.22") == 0


def _direct(broker: BrokerProcess) -> Plain:
    sock = socket.create_connection(("127.0.0.1", broker.ports["mqtt"]), 5, source_address=("127.0.5.1", 0))
    return Plain(0, version=5, sock=sock)


def test_whom_to_believe_must_be_said(start_broker: StartBroker, tmp_path: Path) -> None:
    """PROXY headers without trusted_proxies are refused at the start, with file and line."""
    file = tmp_path / "application.yaml"
    file.write_text("listeners:\n  mqtt:\n    proxy_protocol: true\n")
    with pytest.raises(AssertionError, match=r"application.yaml:3:5: .*trusted_proxies.* must name"):
        start_broker(config=file)


# --- pages of the web ---------------------------------------------------------------------------------------


def _upgrade(broker: BrokerProcess, listener: str, *headers: str, host: str = "") -> int:
    """The status that a WebSocket handshake gets."""
    port = broker.ports[listener]
    head = [
        "GET /mqtt HTTP/1.1",
        f"Host: {host or f'127.0.0.1:{port}'}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Protocol: mqtt",
        *headers,
    ]
    with socket.create_connection(("127.0.0.1", port), 5) as sock:
        sock.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
        return int(sock.recv(4096).split()[1])


ORIGINS = [
    ("ws", "no page", None, "", 101),
    ("ws", "its own page", "http://localhost:8083", "localhost:8083", 101),
    ("ws", "its own page, behind https", "https://localhost", "Localhost:443", 101),
    ("ws", "a site whose name leads here", "http://evil.example:8083", "evil.example:8083", 403),
    ("ws", "another site", "https://evil.example", "", 403),
    ("ws", "another port", "http://localhost:80", "localhost:8083", 403),
    ("ws", "a file or a sandbox", "null", "", 403),
    ("ws", "nonsense", "localhost:8083", "localhost:8083", 403),
    ("app", "a page that is listed", "https://scada.example", "", 101),
    ("app", "the same, written otherwise", "HTTPS://Scada.example:443", "", 101),
    ("app", "a page that is not", "https://scada.example.evil.example", "", 403),
    ("app", "http for https", "http://scada.example", "", 403),
    ("app", "no page", None, "", 101),
    ("any", "another site", "https://evil.example", "", 101),
]


@pytest.mark.parametrize(("listener", "what", "origin", "host", "status"), ORIGINS)
def test_which_pages_may_connect(
    behind: BrokerProcess, listener: str, what: str, origin: str | None, host: str, status: int
) -> None:
    """By default those of the broker's own address; allowed_origins says which others."""
    before = _faults(behind, "FOREIGN_ORIGIN")
    headers = [] if origin is None else [f"Origin: {origin}"]
    assert _upgrade(behind, listener, *headers, host=host) == status, what
    if status == 403:
        wait_until(lambda: _faults(behind, "FOREIGN_ORIGIN") - before == 1)
