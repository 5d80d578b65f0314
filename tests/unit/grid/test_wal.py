"""The walk along a log: torn at its end, or damaged inside?"""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.grid.wal import BLOCK, FIRST, FULL, LAST, MIDDLE, Survey, masked_crc, survey


def fragment(kind: int, data: bytes) -> bytes:
    return (
        masked_crc(bytes([kind]) + data).to_bytes(4, "little") + len(data).to_bytes(2, "little") + bytes([kind]) + data
    )


def batch(sequence: int, size: int = 100) -> bytes:
    return sequence.to_bytes(8, "little") + (1).to_bytes(4, "little") + b"d" * (size - 12)


def log(*batches: bytes) -> bytes:
    """As RocksDB lays them out: cut at blocks, padded when there is no room for a header."""
    out = bytearray()
    for data in batches:
        first = True
        while True:
            room = BLOCK - len(out) % BLOCK
            if room < 7:
                out += bytes(room)
                continue
            part, data = data[: room - 7], data[room - 7 :]
            out += fragment((FULL if first else LAST) if not data else (FIRST if first else MIDDLE), part)
            first = False
            if not data:
                break
    return bytes(out)


def surveyed(directory: Path, *logs: bytes) -> Survey:
    for number, data in enumerate(logs, 4):
        (directory / f"{number:06}.log").write_bytes(data)
    return survey(directory)


SMALL = [batch(number) for number in range(1, 21)]
#: The last three cross a block boundary, fill several blocks, and stand in one.
LARGE = [batch(1, 30_000), batch(2, 10_000), batch(3, 100_000), batch(4, 50)]


def test_the_checksum_is_rocksdbs() -> None:
    """The published check value of crc32c, masked as LevelDB's format says."""
    crc = 0xE306_9283
    assert masked_crc(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_no_log_is_no_trouble(tmp_path: Path) -> None:
    """Nor is an empty one, nor a file of another name, nor a directory that is not there."""
    (tmp_path / "notes.log").write_bytes(b"not ours")
    assert surveyed(tmp_path, b"") == Survey()
    assert survey(tmp_path / "never") == Survey()


@pytest.mark.parametrize("batches", [SMALL, LARGE], ids=["small", "large"])
def test_all_but_the_last_batch_of_a_whole_log_was_acknowledged(tmp_path: Path, batches: list[bytes]) -> None:
    """Also with room reserved behind it."""
    before = len(batches) - 1
    assert surveyed(tmp_path, log(*batches)) == Survey(before)
    assert surveyed(tmp_path, log(*batches) + bytes(3 * BLOCK)) == Survey(before)


@pytest.mark.parametrize("batches", [SMALL, LARGE], ids=["small", "large"])
def test_a_log_cut_in_its_last_batch_hides_nothing(tmp_path: Path, batches: list[bytes]) -> None:
    """Wherever it is cut, and whatever stands in the place of the rest."""
    whole, before = log(*batches), len(log(*batches[:-1]))
    for cut in range(before + 4, len(whole), 7):
        for rest in (b"", bytes(len(whole) - cut), b"\xaa" * (len(whole) - cut)):
            assert surveyed(tmp_path, whole[:cut] + rest) == Survey(len(batches) - 1)


@pytest.mark.parametrize("field", [4, 5, 6])
def test_a_broken_header_with_batches_behind_it_is_found(tmp_path: Path, field: int) -> None:
    """Length and kind: what RocksDB takes for the end of the log."""
    data = bytearray(log(*SMALL))
    spot = len(log(*SMALL[:10]))
    data[spot + field] ^= 0xF0
    found = surveyed(tmp_path, bytes(data))
    assert found.hidden is not None
    assert found.hidden.startswith("000004.log at byte ")
    assert 11 <= found.safe < 20


def test_a_length_that_takes_later_batches_in_is_found(tmp_path: Path) -> None:
    """The zeros behind the log make room for any: the file does not end too soon for it."""
    data = bytearray(log(*SMALL) + bytes(2 * BLOCK))
    spot = len(log(*SMALL[:10]))
    data[spot + 5] = 0x70
    assert surveyed(tmp_path, bytes(data)) == Survey(11, f"000004.log at byte {spot}")


def test_a_batch_in_a_later_block_is_found(tmp_path: Path) -> None:
    """Behind a spot from which nothing in its own block can be read."""
    data = bytearray(log(*LARGE))
    data[0:30_000] = b"\xaa" * 30_000
    found = surveyed(tmp_path, bytes(data))
    assert found.hidden == "000004.log at byte 0"
    assert found.safe >= 1


@pytest.mark.parametrize(("batches", "length"), [(20, 5000), (40, 5000 + BLOCK)], ids=["one", "two"])
def test_a_batch_behind_a_hole_over_the_beginning_of_a_block_is_found(
    tmp_path: Path, batches: int, length: int
) -> None:
    """Where the walk cannot take up: what begins behind the hole in the same block shows that something is missing."""
    whole = log(*(batch(number, 2500) for number in range(1, batches + 1)))
    for start in range(BLOCK - 4900, BLOCK, 100):
        damaged = whole[:start] + bytes(length) + whole[start + length :]
        assert surveyed(tmp_path, damaged).hidden is not None, start


def test_the_rest_of_a_torn_batch_in_later_blocks_is_no_batch(tmp_path: Path) -> None:
    """Middle and last fragments may reach the disk before the first: it was never acknowledged."""
    data = bytearray(log(batch(1), batch(2, 100_000)))
    start = len(log(batch(1)))
    data[start : start + 50] = bytes(50)
    assert surveyed(tmp_path, bytes(data)) == Survey(1)


def test_torn_bytes_behind_a_whole_batch_show_that_it_was_acknowledged(tmp_path: Path) -> None:
    """However few; the rest of a batch shows nothing about itself."""
    assert surveyed(tmp_path, log(*SMALL[:10]) + b"\xaa" * 8) == Survey(10)
    torn = log(*LARGE[:3])
    assert surveyed(tmp_path, torn[: -(len(torn) % BLOCK) + 20]) == Survey(2)


def test_a_batch_in_a_later_log_is_found(tmp_path: Path) -> None:
    """Logs follow one another by number."""
    torn = log(*SMALL[:10])[:-5]
    assert surveyed(tmp_path, torn, log(*SMALL[10:])).hidden == f"000004.log at byte {len(log(*SMALL[:9]))}"
    assert surveyed(tmp_path, torn, b"") == Survey(9)


@pytest.mark.parametrize("field", [4, 7, 8, 9, 10, 11, 12])
def test_a_flipped_number_of_the_last_batch_is_not_believed(tmp_path: Path, field: int) -> None:
    """Length, sequence number, count: that the batch stands there says that the one before it was acknowledged."""
    data = bytearray(log(*SMALL))
    data[len(log(*SMALL[:-1])) + field] ^= 0x08
    assert surveyed(tmp_path, bytes(data)) == Survey(19)


@pytest.mark.parametrize("kind", [5, 6, 7, 8])
def test_a_kind_that_rocksdb_reads_for_ever_is_named(tmp_path: Path, kind: int) -> None:
    """At the end it is torn; with batches behind it, it is damage like any other."""
    whole, spot = log(*SMALL), len(log(*SMALL[:-1]))
    data = bytearray(whole)
    data[spot + 6] = kind
    assert surveyed(tmp_path, bytes(data)) == Survey(19, endless=("000004.log", spot))
    data = bytearray(whole)
    data[len(log(*SMALL[:10])) + 6] = kind
    found = surveyed(tmp_path, bytes(data))
    assert found.hidden is not None
    assert found.endless is not None
