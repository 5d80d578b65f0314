"""``ports.devices.DeviceStore`` on any grid.

    cache      key                                     value
    commands   client prefix │ "c" │ command id        JSON: a command
               client prefix │ "b" │ command id        its body, as it came
    devices    "d" │ client prefix │ device            JSON: a gateway (no device) or a device
               "s" │ gateway                           epoch (8) │ sequence (8) │ owner's length (4) │ owner
    shadows    "r" │ target, "d" │ target              JSON: what was reported, what is desired

The client prefix is that of the gateway, or of the MQTT device, whose session brings the commands. Every value has
the version byte of ``grid.records`` in front; fields of the JSON objects that a reader does not know are passed over.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from struct import Struct
from typing import Any, TypeVar

from iot_mqtt.grid.records.base import VERSION, StructError, Unreadable, check_version
from iot_mqtt.grid.records.keys import client_prefix
from iot_mqtt.ports.devices import (
    Half,
    State,
    StoredCommand,
    StoredDevice,
    StoredSequence,
    StoredShadow,
    UnreadableShadow,
    owner_of,
    replace,
)
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch
from iot_mqtt.ports.json_reader import STORED_DEPTH, is_deep
from iot_mqtt.ports.scanning import scan
from iot_mqtt.values import NO_STANDING, Standing

log = logging.getLogger(__name__)

T = TypeVar("T")

_VERSION = bytes((VERSION,))
_SEQUENCE = Struct(">QQ")
_LENGTH = Struct(">I")
_COMMAND, _BODY = b"c", b"b"


class GridDeviceStore:
    """Records that can't be read stay where they are; they are counted and told."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self.unreadable = 0

    # Commands.

    def put_command(self, batch: WriteBatch, command: StoredCommand) -> None:
        batch.put(CacheName.COMMANDS, _command_key(command.owner, command.id), encode_command(command))

    def put_body(self, batch: WriteBatch, target: str, command_id: str, body: bytes) -> None:
        batch.put(CacheName.COMMANDS, _body_key(owner_of(target), command_id), _VERSION + body)

    def remove_command(self, batch: WriteBatch, target: str, command_id: str) -> None:
        owner = owner_of(target)
        batch.remove(CacheName.COMMANDS, _command_key(owner, command_id))
        batch.remove(CacheName.COMMANDS, _body_key(owner, command_id))

    async def commands(self, owner: str | None = None) -> AsyncIterator[StoredCommand]:
        prefix = b"" if owner is None else client_prefix(owner) + _COMMAND
        async for key, value in scan(self._grid, CacheName.COMMANDS, prefix):
            if _is_command(key):
                command = self._read(CacheName.COMMANDS, decode_command, value)
                if command is not None:
                    yield command

    async def command(self, owner: str, command_id: str) -> StoredCommand | None:
        value = await self._grid.get(CacheName.COMMANDS, _command_key(owner, command_id))
        return None if value is None else self._read(CacheName.COMMANDS, decode_command, value)

    async def swap_command(self, before: StoredCommand, after: StoredCommand) -> bool:
        key = _command_key(before.owner, before.id)
        present = await self._grid.get(CacheName.COMMANDS, key)
        if present is None or self._read(CacheName.COMMANDS, decode_command, present) != before:
            return False
        return await self._grid.compare_and_set(CacheName.COMMANDS, key, present, encode_command(after))

    async def body(self, owner: str, command_id: str) -> bytes | None:
        value = await self._grid.get(CacheName.COMMANDS, _body_key(owner, command_id))
        return None if value is None else self._read(CacheName.COMMANDS, _behind_version, value)

    # Gateways and devices.

    def put_device(self, batch: WriteBatch, device: StoredDevice) -> None:
        batch.put(CacheName.DEVICES, _device_key(device.gateway, device.device), encode_device(device))

    def remove_device(self, batch: WriteBatch, gateway: str, device: str) -> None:
        batch.remove(CacheName.DEVICES, _device_key(gateway, device))

    async def devices(self, gateway: str | None = None) -> AsyncIterator[StoredDevice]:
        prefix = b"d" if gateway is None else b"d" + client_prefix(gateway)
        async for _, value in scan(self._grid, CacheName.DEVICES, prefix):
            device = self._read(CacheName.DEVICES, decode_device, value)
            if device is not None:
                yield device

    def put_sequence(self, batch: WriteBatch, gateway: str, sequence: StoredSequence) -> None:
        batch.put(CacheName.DEVICES, b"s" + gateway.encode(), encode_sequence(sequence))

    def remove_sequence(self, batch: WriteBatch, gateway: str) -> None:
        batch.remove(CacheName.DEVICES, b"s" + gateway.encode())

    async def sequence(self, gateway: str) -> StoredSequence | None:
        value = await self._grid.get(CacheName.DEVICES, b"s" + gateway.encode())
        return None if value is None else self._read(CacheName.DEVICES, decode_sequence, value)

    # Shadows.

    def put_reported(self, batch: WriteBatch, target: str, shadow: StoredShadow) -> None:
        batch.put(CacheName.SHADOWS, b"r" + target.encode(), encode_shadow(shadow))

    def remove_reported(self, batch: WriteBatch, target: str) -> None:
        batch.remove(CacheName.SHADOWS, b"r" + target.encode())

    async def reported(self, target: str) -> StoredShadow:
        return await self._shadow(b"r" + target.encode())

    async def desired(self, target: str) -> StoredShadow:
        return await self._shadow(b"d" + target.encode())

    async def swap_desired(self, target: str, shadow: StoredShadow) -> bool:
        key = b"d" + target.encode()
        present = await self._grid.get(CacheName.SHADOWS, key)
        before = self._decoded(key, present)
        if before.version != shadow.version - 1:
            return False
        return await self._grid.compare_and_set(CacheName.SHADOWS, key, present, encode_shadow(shadow))

    async def remove_empty_desired(self, target: str) -> bool:
        key = b"d" + target.encode()
        present = await self._grid.get(CacheName.SHADOWS, key)
        if present is None or self._decoded(key, present).values:
            return False
        return await self._grid.compare_and_set(CacheName.SHADOWS, key, present, None)

    async def remove_damaged(self, half: Half, target: str) -> bool:
        key = half.value.encode() + target.encode()
        present = await self._grid.get(CacheName.SHADOWS, key)
        if present is None or not _is_damaged(present):
            return False
        return await self._grid.compare_and_set(CacheName.SHADOWS, key, present, None)

    async def shadows_after(self, half: Half, after: str, limit: int) -> list[str]:
        prefix = half.value.encode()
        page = await self._grid.page(CacheName.SHADOWS, prefix, prefix + after.encode(), limit)
        return [key[1:].decode() for key, _ in page]

    async def _shadow(self, key: bytes) -> StoredShadow:
        return self._decoded(key, await self._grid.get(CacheName.SHADOWS, key))

    def _decoded(self, key: bytes, value: bytes | None) -> StoredShadow:
        if value is None:
            return StoredShadow()
        found = self._read(CacheName.SHADOWS, decode_shadow, value)
        if found is None:
            raise UnreadableShadow(f"the shadow of {key[1:].decode()} is of a later version, or damaged")
        return found

    def _read(self, cache: CacheName, decode: Callable[[bytes], T], value: bytes) -> T | None:
        try:
            return decode(value)
        except Unreadable as error:
            self.unreadable += 1
            log.error("a record of %s can't be read: %s", cache.value, error)
            return None


def _command_key(owner: str, command_id: str) -> bytes:
    return client_prefix(owner) + _COMMAND + command_id.encode()


def _body_key(owner: str, command_id: str) -> bytes:
    return client_prefix(owner) + _BODY + command_id.encode()


def _is_command(key: bytes) -> bool:
    behind = 2 + int.from_bytes(key[:2], "big")
    return key[behind : behind + 1] == _COMMAND


def _device_key(gateway: str, device: str) -> bytes:
    return b"d" + client_prefix(gateway) + device.encode()


def encode_command(command: StoredCommand) -> bytes:
    """Without its body; what is empty is left out."""
    record = {
        "id": command.id,
        "target": command.target,
        "state": command.state.value,
        "accepted_at": command.accepted_at,
        "deadline": command.deadline,
        "written": command.written,
        "retry": command.retry,
        "wants_reply": command.wants_reply,
        "idempotency_key": command.idempotency_key,
        "sender": command.sender,
        "identities": command.identities,
        "standing": None if command.standing == NO_STANDING else _written_standing(command.standing),
        "response_topic": command.response_topic,
        "correlation": base64.b64encode(command.correlation).decode(),
        "times": dict(command.times),
        "attempts": command.attempts,
        "detail": command.detail,
        "values": None if command.values is None else dict(command.values),
        "untold": command.untold,
    }
    whose = {} if command.user is None else {"user": command.user}
    return _written({name: value for name, value in record.items() if value or name == "accepted_at"} | whose)


def decode_command(value: bytes) -> StoredCommand:
    record = _object(value)
    try:
        return StoredCommand(
            id=str(record["id"]),
            target=str(record["target"]),
            state=State(record["state"]),
            accepted_at=float(record["accepted_at"]),
            deadline=None if record.get("deadline") is None else float(record["deadline"]),
            written=None if record.get("written") is None else float(record["written"]),
            retry=bool(record.get("retry")),
            wants_reply=bool(record.get("wants_reply")),
            idempotency_key=str(record.get("idempotency_key", "")),
            sender=str(record.get("sender", "")),
            user=None if record.get("user") is None else str(record["user"]),
            identities=tuple(map(str, record.get("identities", ()))),
            standing=_read_standing(record.get("standing")),
            response_topic=str(record.get("response_topic", "")),
            correlation=base64.b64decode(record.get("correlation", "")),
            times={str(name): float(at) for name, at in record.get("times", {}).items()},
            attempts=int(record.get("attempts", 0)),
            detail=str(record.get("detail", "")),
            values=record.get("values"),
            untold=bool(record.get("untold")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unreadable(f"a command: {error!r}") from error


def _written_standing(standing: Standing) -> list[object]:
    return [sorted(standing.groups), standing.address, standing.brought_rules, standing.link]


def _read_standing(field: list[Any] | None) -> Standing:
    if field is None:
        return NO_STANDING
    groups, address, brought, link = field
    return Standing(frozenset(map(str, groups)), str(address), tuple(map(str, brought)), str(link))


def encode_device(device: StoredDevice) -> bytes:
    return _written({name: getattr(device, name) for name in StoredDevice.__slots__})


def decode_device(value: bytes) -> StoredDevice:
    record = _object(value)
    try:
        return StoredDevice(**{name: record[name] for name in StoredDevice.__slots__ if name in record})
    except TypeError as error:
        raise Unreadable(f"a device: {error}") from error


def encode_shadow(shadow: StoredShadow) -> bytes:
    whose = {} if shadow.owner is None else {"owner": shadow.owner}
    return _written({"version": shadow.version, "values": dict(shadow.values), "times": dict(shadow.times), **whose})


def decode_shadow(value: bytes) -> StoredShadow:
    record = _object(value)
    try:
        values, times = dict(record["values"]), dict(record.get("times", {}))
        return StoredShadow(int(record["version"]), values, times, record.get("owner"))
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"a shadow: {error!r}") from error


def _is_damaged(value: bytes) -> bool:
    """Whether a record says that it is of this version, and is not."""
    if value[0] >> 4 != VERSION >> 4:
        return False
    try:
        decode_shadow(value)
    except Unreadable:
        return True
    return False


def encode_sequence(sequence: StoredSequence) -> bytes:
    record = _VERSION + _SEQUENCE.pack(sequence.epoch, sequence.highest)
    if sequence.owner is None:
        return record
    owner = sequence.owner.encode("utf-8", "replace")
    return record + _LENGTH.pack(len(owner)) + owner


def decode_sequence(value: bytes) -> StoredSequence:
    """Those of earlier releases end behind the number."""
    found = _behind_version(value)
    try:
        sequence = StoredSequence(*_SEQUENCE.unpack_from(found))
        found = found[_SEQUENCE.size :]
        if not found:
            return sequence
        (length,) = _LENGTH.unpack_from(found)
        owner = found[_LENGTH.size : _LENGTH.size + length]
        if len(owner) < length:
            raise Unreadable("a sequence cut short")
        return replace(sequence, owner=owner.decode())
    except (StructError, UnicodeDecodeError) as error:
        raise Unreadable(f"a sequence: {error!r}") from error


def _written(record: Mapping[str, Any]) -> bytes:
    return _VERSION + json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _object(value: bytes) -> dict[str, Any]:
    try:
        # Earlier versions kept infinities, which no JSON has: they are null.
        record = json.loads(_behind_version(value), parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise Unreadable("a record that is no JSON, or too deep") from error
    if is_deep(value, record, STORED_DEPTH):
        raise Unreadable(f"a record of more than {STORED_DEPTH} levels of objects and lists")
    if not isinstance(record, dict):
        raise Unreadable("a record that is no JSON object")
    return record


def _behind_version(value: bytes) -> bytes:
    check_version(value)
    return value[1:]
