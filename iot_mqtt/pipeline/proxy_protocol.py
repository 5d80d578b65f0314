r"""The PROXY protocol, versions 1 and 2: who the client is, said by the load balancer in front of us.

::

    v1   PROXY TCP4 198.51.100.7 203.0.113.5 51234 1883\r\n

    v2   0D 0A 0D 0A 00 0D 0A 51 55 49 54 0A | 21 | 11 | 00 0C | addresses, then TLVs
         signature                           | v,c | fam | length

After https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt. ``HeaderReader`` is sans-IO and takes its bytes in
any pieces; the stage hands on what follows the header. A header is believed from trusted networks only; whoever else
connects to a port that expects one is closed before anything of it is read.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from iot_mqtt.pipeline.channel import Channel, address
from iot_mqtt.pipeline.reasons import CloseReason
from iot_mqtt.pipeline.stage import Batch, Context, Stage
from iot_mqtt.ports.addresses import address_of

__all__ = ["HeaderReader", "Network", "ProxyHeader", "ProxyHeaderError", "ProxyProtocolStage", "networks"]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

V1_START = b"PROXY "
V1_MAX = 107
V2_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
V2_FIXED = 16
#: Addresses and TLVs; the format allows 65,535, no balancer sends this much.
V2_MAX = 4096

#: v2 family and transport → (address family, bytes of an address); stream sockets only.
_FAMILIES = {0x11: (socket.AF_INET, 4), 0x21: (socket.AF_INET6, 16)}
_UNKNOWN_FAMILIES = (0x00, 0x31)  # unspecified, unix stream: nothing that could be a client's host and port

_TLV_SSL = 0x20
_TLV_SSL_CN = 0x22
_CLIENT_SSL = 0x01
#: The client has shown a certificate: in this connection, or in an earlier one of its TLS session.
_CLIENT_CERT = 0x02 | 0x04


class ProxyHeaderError(Exception):
    """The bytes are no PROXY header."""


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """What the header says; None where it says nothing (v1 UNKNOWN, v2 LOCAL: the balancer speaks for itself)."""

    source: str | None = None
    destination: str | None = None
    #: Common name of the certificate the client showed the balancer, which verified it.
    certificate_name: str | None = None


class HeaderReader:
    """Bytes in, header out. ``feed`` returns None until the header is complete; then ``rest`` has what follows."""

    __slots__ = ("rest", "_buffer")

    def __init__(self) -> None:
        self._buffer = b""
        self.rest = b""

    def feed(self, data: bytes) -> ProxyHeader | None:
        """Take more bytes; raises ``ProxyHeaderError`` at the first that cannot be part of a header."""
        buffer = self._buffer = self._buffer + data
        if _could_be(buffer, V1_START):
            end = _v1_end(buffer)
            parse = read_v1
        elif _could_be(buffer, V2_SIGNATURE):
            end = _v2_end(buffer)
            parse = read_v2
        else:
            raise ProxyHeaderError("neither a v1 nor a v2 header")
        if end is None:
            return None
        self.rest = buffer[end:]
        return parse(buffer[:end])


def _could_be(buffer: bytes, start: bytes) -> bool:
    return buffer.startswith(start) or start.startswith(buffer)


def _v1_end(buffer: bytes) -> int | None:
    found = buffer.find(b"\r\n", 0, V1_MAX)
    if found >= 0:
        return found + 2
    if len(buffer) >= V1_MAX:
        raise ProxyHeaderError(f"a v1 header ends within {V1_MAX} bytes")
    return None


def _v2_end(buffer: bytes) -> int | None:
    if len(buffer) < V2_FIXED:
        return None
    length = int.from_bytes(buffer[14:16], "big")
    if length > V2_MAX:
        raise ProxyHeaderError(f"a v2 header of {length} bytes")
    return V2_FIXED + length if len(buffer) >= V2_FIXED + length else None


def read_v1(header: bytes) -> ProxyHeader:
    """A complete v1 header, line end included."""
    fields = header[:-2].split(b" ")
    if fields[:2] == [b"PROXY", b"UNKNOWN"]:
        return ProxyHeader()
    if len(fields) != 6 or fields[1] not in (b"TCP4", b"TCP6"):
        raise ProxyHeaderError("v1: expected TCP4 or TCP6, two addresses and two ports")
    family = socket.AF_INET if fields[1] == b"TCP4" else socket.AF_INET6
    hosts = [_v1_host(family, field) for field in fields[2:4]]
    ports = [_v1_port(field) for field in fields[4:6]]
    return ProxyHeader(address(hosts[0], ports[0]), address(hosts[1], ports[1]))


def _v1_host(family: socket.AddressFamily, field: bytes) -> str:
    try:
        host = field.decode("ascii")
        return socket.inet_ntop(family, socket.inet_pton(family, host))
    except (OSError, UnicodeDecodeError, ValueError):
        raise ProxyHeaderError(f"v1: not an address: {field!r}") from None


def _v1_port(field: bytes) -> int:
    if not field.isdigit() or len(field) > 5 or (field[:1] == b"0" and field != b"0") or int(field) > 0xFFFF:
        raise ProxyHeaderError(f"v1: not a port: {field!r}")
    return int(field)


def read_v2(header: bytes) -> ProxyHeader:
    """A complete v2 header."""
    version, command, family = header[12] >> 4, header[12] & 0x0F, header[13]
    if version != 2 or command > 1:
        raise ProxyHeaderError(f"v2: version {version}, command {command}")
    if command == 0:  # LOCAL: a health check of the balancer; whatever follows is to be ignored
        return ProxyHeader()
    if family in _UNKNOWN_FAMILIES:
        return ProxyHeader()
    if family not in _FAMILIES:
        raise ProxyHeaderError(f"v2: family {family:#04x}")
    address_family, width = _FAMILIES[family]
    ports_at = V2_FIXED + 2 * width
    tlvs_at = ports_at + 4
    if len(header) < tlvs_at:
        raise ProxyHeaderError("v2: the addresses do not fit into the length")
    source = socket.inet_ntop(address_family, header[V2_FIXED : V2_FIXED + width])
    destination = socket.inet_ntop(address_family, header[V2_FIXED + width : ports_at])
    return ProxyHeader(
        address(source, int.from_bytes(header[ports_at : ports_at + 2], "big")),
        address(destination, int.from_bytes(header[ports_at + 2 : tlvs_at], "big")),
        _certificate_name(header[tlvs_at:]),
    )


def _certificate_name(tlvs: bytes) -> str | None:
    name = None
    for kind, value in _tlvs(tlvs):
        # PP2_TYPE_SSL: client flags (1), verify (4, zero is success), then TLVs of its own
        if kind == _TLV_SSL:
            if len(value) < 5:
                raise ProxyHeaderError("v2: the SSL TLV is too short")
            inner = dict(_tlvs(value[5:]))
            shown = value[0] & _CLIENT_SSL and value[0] & _CLIENT_CERT
            if shown and value[1:5] == b"\0\0\0\0" and _TLV_SSL_CN in inner:
                # What is no UTF-8 stays recognisable as that: two such names must not become one.
                name = inner[_TLV_SSL_CN].decode("utf-8", "surrogateescape")
    return name


def _tlvs(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        end = position + 3 + int.from_bytes(data[position + 1 : position + 3], "big")
        if position + 3 > len(data) or end > len(data):
            raise ProxyHeaderError("v2: a TLV runs past the end of the header")
        yield data[position], data[position + 3 : end]
        position = end


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks (``10.0.0.0/8``) and single addresses; ``ValueError`` if one is neither."""
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)


def _is_within(peer: str, trusted: tuple[Network, ...]) -> bool:
    found = address_of(peer)
    return found is not None and any(found in network for network in trusted)


class ProxyProtocolStage(Stage):
    """Takes the header off the front of the connection, sets ``channel.peer`` and ``local``, and removes itself."""

    __slots__ = ("_placed", "_reader", "_trusted")

    def __init__(self, trusted: tuple[Network, ...], placed: Callable[[Channel], CloseReason | None]) -> None:
        """``placed`` is told once the header is there; it may say why the connection has to be closed."""
        self._reader = HeaderReader()
        self._trusted = trusted
        self._placed = placed

    def active(self, ctx: Context) -> None:
        ctx.fire_active()
        if not _is_within(ctx.channel.peer, self._trusted):
            ctx.close(CloseReason("untrusted_proxy", "not a load balancer of this port (trusted_proxies)"))

    def read(self, ctx: Context, batch: Batch) -> None:
        try:
            header = self._reader.feed(b"".join(batch))
        except ProxyHeaderError as error:
            ctx.close(CloseReason("bad_proxy_header", str(error)))
            return
        if header is None:
            return
        channel = ctx.channel
        if header.source is not None:
            channel.peer = header.source
        if header.destination is not None:
            channel.local = header.destination
        if header.certificate_name is not None:
            channel.certificate_name = header.certificate_name
        refusal = self._placed(channel)
        if refusal is not None:
            ctx.close(refusal)
            return
        ctx.pipeline.remove(ctx.name)
        ctx.fire_event(header)
        if self._reader.rest:
            ctx.fire_read([self._reader.rest])
