"""A broker whose disk fails or is slow, and whose wall clock steps, as a test says (``faults.c``)."""

from __future__ import annotations

import mmap
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Final

from systemkit.process import BrokerProcess, Options

_FAULTS: Final = Struct("=iiqq")
_FAILED: Final = Struct("=q")


class FaultyBroker(BrokerProcess):
    """``disk`` and ``wall_clock`` say what goes wrong until it is over."""

    def __init__(self, folder: Path, options: Options) -> None:
        super().__init__(folder, options)
        folder.mkdir(parents=True)
        self._library, path = folder / "faults.so", folder / "faults"
        source = Path(__file__).with_name("faults.c")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", self._library, source], check=True)
        path.write_bytes(bytes(_FAULTS.size))
        self._path = path
        with path.open("r+b") as file:
            self._faults = mmap.mmap(file.fileno(), _FAULTS.size)

    def command(self) -> list[str]:
        return ["env", f"LD_PRELOAD={self._library}", f"FAULTS={self._path}", *super().command()]

    @property
    def failed_syncs(self) -> int:
        """So many were made to fail."""
        return int(_FAILED.unpack_from(self._faults, _FAULTS.size - _FAILED.size)[0])

    @contextmanager
    def disk(self, *, error: int = 0, seconds: float = 0.0) -> Iterator[None]:
        """Every sync of the grid ends with this errno, or takes so much longer."""
        Struct("=ii").pack_into(self._faults, 0, error, round(seconds * 1_000_000))
        try:
            yield
        finally:
            Struct("=ii").pack_into(self._faults, 0, 0, 0)

    def wall_clock(self, ahead: int) -> None:
        """The wall clock steps: so many seconds ahead of ours from now on."""
        Struct("=q").pack_into(self._faults, 8, ahead)
