"""The file of an archive: whole, or told that it is not."""

from __future__ import annotations

import random
from io import BytesIO

import pytest

from iot_mqtt.grid.archive.sealing import PIECE, BadArchive, PieceWriter, read_pieces

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

SECRETS = (None, b"of the factory")
TEXT = random.Random(7).randbytes(PIECE + 100) + bytes(2 * PIECE)


def sealed(data: bytes, secret: bytes | None) -> bytes:
    file = BytesIO()
    writer = PieceWriter(file, secret)
    for start in range(0, len(data), 100_000):
        writer.write(data[start : start + 100_000])
    writer.close()
    return file.getvalue()


def opened(file: bytes, secret: bytes | None) -> bytes:
    return b"".join(read_pieces(BytesIO(file), secret))


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, TEXT[:PIECE]], ids=["empty", "one", "several", "just one"])
def test_what_was_written_is_read(data: bytes, secret: bytes | None) -> None:
    assert opened(sealed(data, secret), secret) == data


@pytest.mark.parametrize("secret", SECRETS)
def test_damage_is_told_wherever_it_is(secret: bytes | None) -> None:
    """A changed, a missing or a moved byte; no beginning of a file is a file."""
    file = sealed(TEXT[-PIECE - 5000 :] + TEXT[:5000], secret)
    # The salt of an open file is nobody's.
    places = [*range(8, len(file), 301), len(file) - 1] if secret is None else [10, 40, len(file) // 2, len(file) - 1]
    for place in places:
        if secret is None and 8 < place < 25:
            continue
        changed = bytearray(file)
        changed[place] ^= 0x40
        with pytest.raises(BadArchive):
            opened(bytes(changed), secret)
    for end in (0, 7, 24, 25, 27, 29, 100, len(file) - 1):
        with pytest.raises(BadArchive):
            opened(file[:end], secret)
    with pytest.raises(BadArchive, match="behind the end"):
        opened(file + b"x", secret)


@pytest.mark.parametrize("secret", SECRETS)
def test_pieces_stay_in_their_places(secret: bytes | None) -> None:
    """Nobody can leave one out, swap two, or end the file at one of them."""
    file = sealed(TEXT, secret)
    head, pieces, at = file[:25], [], 25
    while at < len(file):
        length = 4 + (int.from_bytes(file[at : at + 4]) & 0x7FFF_FFFF)
        pieces.append(file[at : at + length])
        at += length
    assert len(pieces) == 4
    ended = bytes([pieces[1][0] | 0x80]) + pieces[1][1:]
    for wrong in ([1, 0, 2, 3], [0, 2, 3], [0, 1, 1, 2, 3]):
        with pytest.raises(BadArchive):
            opened(head + b"".join(pieces[number] for number in wrong), secret)
    with pytest.raises(BadArchive):
        opened(head + pieces[0] + ended, secret)


def test_a_secret_is_needed_and_no_other_does() -> None:
    file = sealed(b"the plans", b"right")
    assert b"plans" not in file
    with pytest.raises(BadArchive, match="encrypted"):
        opened(file, None)
    with pytest.raises(BadArchive, match="another one"):
        opened(file, b"wrong")
    assert opened(sealed(b"the plans", None), b"a secret that nobody asked for") == b"the plans"


def test_a_piece_says_more_than_it_may_be() -> None:
    """Neither a length nor a few compressed bytes make the reader take a gigabyte."""
    file = sealed(b"x", None)
    with pytest.raises(BadArchive, match="damaged"):
        opened(file[:25] + b"\xff\xff\xff\xff" + file[29:], None)
    import zlib

    bomb = zlib.compress(bytes(100 * PIECE))
    with pytest.raises(BadArchive, match="damaged"):
        opened(file[:25] + (len(bomb) + 32 | 0x8000_0000).to_bytes(4) + bytes(32) + bomb, None)
