"""Which format an embedded grid has on the disk, whether a node has it open or not; nothing in it is changed."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from rocksdict import AccessType, Options, Rdict

from iot_mqtt.grid.engine_format import TAGGED_KEY, read_format
from iot_mqtt.grid.faults import Damaged, OpenFault

#: What the entries are in.
_DATA = re.compile(r"CURRENT|(MANIFEST|OPTIONS)-\d+|\d+\.(sst|log)")


def grid_format(directory: Path) -> tuple[int, int] | None:
    """None: there is no grid yet. Raises ``OpenFault``."""
    if not (directory / "CURRENT").exists():
        return None
    with TemporaryDirectory(prefix="iot-mqtt-") as elsewhere:
        # Whoever opens a directory writes files about that into it, also one who only reads.
        for path in directory.iterdir():
            if _DATA.fullmatch(path.name):
                (Path(elsewhere) / path.name).symlink_to(path.absolute())
        try:
            grid = Rdict(elsewhere, Options(raw_mode=True), access_type=AccessType.read_only())
        except Exception as error:
            raise OpenFault(f"{directory} cannot be opened: {error}") from error
        try:
            record = grid.get(TAGGED_KEY)
        finally:
            grid.close()
    if record is None:
        raise Damaged(directory, "there is no format record")
    return read_format(directory, record)
