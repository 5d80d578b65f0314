"""The file of an archive: pieces of up to a megabyte, each compressed, and encrypted where there is a secret.

::

    "IMQBACK" │ version (1) │ kind (1): 0 open, 1 sealed │ salt (16) │ piece … piece
    piece:  length (4, big-endian; the first bit is set in the last one) │ body

The body is zlib's. Open, SHA-256 of the number of the piece, of whether it is the last, and of that
stands in front of it, so that a piece that was damaged, left out or moved is told. Sealed, it goes through AES-256-GCM
with a key that scrypt makes of the secret and the salt; nonce and associated data are those same two facts, as in
STREAM (Hoang, Reyhanitabar, Rogaway, Vizár: Online Authenticated-Encryption and its Nonce-Reuse Misuse-Resistance).
An archive that ends without its last piece is cut short, and told so.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from struct import Struct
from typing import BinaryIO, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MAGIC: Final = b"IMQBACK\x01"
PIECE: Final = 1 << 20
#: What zlib may make of a piece that does not compress, and what stands around it.
_LONGEST: Final = PIECE + PIECE // 100 + 1024
_SALT: Final = 16
_LAST: Final = 0x8000_0000
_U32: Final = Struct(">I")
_PLACE: Final = Struct(">IQ")
#: scrypt's cost: 128 MB and some 0.4 s.
_N, _R, _P = 1 << 17, 8, 1

Secret = bytes
#: (body, number of the piece, whether it is the last)
_Pass = Callable[[bytes, int, bool], bytes]


class BadArchive(Exception):
    """The file is no archive, is damaged, cut short, or sealed with another secret."""


class PieceWriter:
    """Bytes into pieces of ``file``; nothing is whole before ``close``."""

    def __init__(self, file: BinaryIO, secret: Secret | None) -> None:
        self._file = file
        self._waiting = bytearray()
        self._number = 0
        salt = os.urandom(_SALT)
        self._seal = _hashed if secret is None else _sealing(secret, salt)
        file.write(MAGIC + bytes([secret is not None]) + salt)

    def write(self, data: bytes) -> None:
        self._waiting += data
        while len(self._waiting) > PIECE:
            self._emit(bytes(self._waiting[:PIECE]), last=False)
            del self._waiting[:PIECE]

    def close(self) -> None:
        """Write the last piece; the file stays open."""
        self._emit(bytes(self._waiting), last=True)
        self._waiting.clear()

    def _emit(self, data: bytes, *, last: bool) -> None:
        body = self._seal(data, self._number, last)
        self._file.write(_U32.pack(len(body) | (_LAST if last else 0)) + body)
        self._number += 1


def read_pieces(file: BinaryIO, secret: Secret | None) -> Iterator[bytes]:
    """What was written, a piece at a time; raises ``BadArchive``."""
    head = file.read(len(MAGIC) + 1 + _SALT)
    if len(head) < len(MAGIC) + 1 + _SALT or not head.startswith(MAGIC):
        raise BadArchive("this is no backup of iot-mqtt, or one of a later version")
    sealed, salt = head[len(MAGIC)], head[-_SALT:]
    if sealed and secret is None:
        raise BadArchive("this backup is encrypted: name the file with its secret")
    opened = _checked if not sealed or secret is None else _opening(secret, salt)
    number, last = 0, False
    while not last:
        length = file.read(_U32.size)
        if len(length) < _U32.size:
            raise BadArchive("the backup is cut short")
        word = _U32.unpack(length)[0]
        last, size = bool(word & _LAST), word & ~_LAST
        if size > _LONGEST:
            raise BadArchive(f"piece {number} of the backup is damaged")
        body = file.read(size)
        if len(body) < size:
            raise BadArchive("the backup is cut short")
        yield opened(body, number, last)
        number += 1
    if file.read(1):
        raise BadArchive("there is something behind the end of the backup")


def _hashed(data: bytes, number: int, last: bool) -> bytes:
    body = zlib.compress(data, 1)
    return _digest(body, number, last) + body


def _checked(body: bytes, number: int, last: bool) -> bytes:
    if _digest(body[32:], number, last) != body[:32]:
        raise BadArchive(f"piece {number} of the backup is damaged")
    return _inflate(body[32:], number)


def _digest(body: bytes, number: int, last: bool) -> bytes:
    return hashlib.sha256(_PLACE.pack(last, number) + body).digest()


def _sealing(secret: Secret, salt: bytes) -> _Pass:
    cipher = AESGCM(_key(secret, salt))

    def seal(data: bytes, number: int, last: bool) -> bytes:
        place = _PLACE.pack(last, number)
        return cipher.encrypt(place, zlib.compress(data, 1), place)

    return seal


def _opening(secret: Secret, salt: bytes) -> _Pass:
    cipher = AESGCM(_key(secret, salt))

    def open_piece(body: bytes, number: int, last: bool) -> bytes:
        place = _PLACE.pack(last, number)
        try:
            return _inflate(cipher.decrypt(place, body, place), number)
        except InvalidTag as error:
            why = "the secret is another one, or the backup is damaged" if number == 0 else "it is damaged"
            raise BadArchive(f"piece {number} of the backup cannot be opened: {why}") from error

    return open_piece


def _inflate(data: bytes, number: int) -> bytes:
    """No more than a piece, whatever it says."""
    inflating = zlib.decompressobj()
    try:
        found = inflating.decompress(data, PIECE + 1)
    except zlib.error as error:
        raise BadArchive(f"piece {number} of the backup is damaged") from error
    if len(found) > PIECE or not inflating.eof or inflating.unused_data:
        raise BadArchive(f"piece {number} of the backup is damaged")
    return found


def _key(secret: Secret, salt: bytes) -> bytes:
    return hashlib.scrypt(secret, salt=salt, n=_N, r=_R, p=_P, maxmem=256 << 20, dklen=32)
