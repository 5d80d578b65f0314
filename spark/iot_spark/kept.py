"""What a job keeps from one batch to the next: small facts as JSON that name directories of Parquet.

::

    <checkpoint>/kept/000000000007.json         the facts after batch 7, there when and only when all they name is there
    <checkpoint>/kept/<name>-000000000007/      rows that batch 7 has written; later facts may still name them

Batch N reads the facts after N - 1 and writes its own before the sink decides that the batch is what it is. One that is
run again reads the same again, so nothing is folded in twice. It lies in the checkpoint because it is worth nothing
without it: remove one, and both are gone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from iot_spark.sinks import replace_json

#: Facts of so many batches stay: the one before the batch that may be run again, and one to look at.
_BATCHES: Final = 3


class NotKept(Exception):
    """The facts of the batch before are not there: the checkpoint is not whole."""


class Kept:
    """Of one job. Directories are named in the facts, under ``"parts"``: what they do not name is removed in time."""

    def __init__(self, spark: SparkSession, checkpoint: Path) -> None:
        self._spark = spark
        self._folder = checkpoint / "kept"

    def before(self, number: int) -> Mapping[str, Any]:
        """The facts after the batch before this; none before the first."""
        if number == 0:
            return {}
        path = self._facts(number - 1)
        try:
            found: Mapping[str, Any] = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise NotKept(
                f"{path} is missing, so what was known after batch {number - 1} is lost; put the whole checkpoint back "
                "from a copy, or remove it as a whole, with the job's tables, and let the job begin from the first row"
            ) from None
        return found

    def rows(self, part: str, schema: StructType) -> DataFrame:
        """The rows of a part that facts name."""
        return self._spark.read.schema(schema).parquet(str(self._folder / part))

    def write(self, name: str, number: int, rows: DataFrame) -> str:
        """Write rows; what comes back is to be named in the facts of this batch."""
        part = f"{name}-{number:012d}"
        rows.write.mode("overwrite").parquet(str(self._folder / part))
        return part

    def keep(self, number: int, facts: Mapping[str, Any]) -> None:
        """The facts after this batch."""
        replace_json(self._facts(number), facts)
        self._tidy(number)

    def _tidy(self, number: int) -> None:
        """Remove what no batch can ask for any more."""
        named: set[str] = set()
        for path in sorted(self._folder.glob("*.json")):
            if int(path.stem) <= number - _BATCHES:
                path.unlink()
            else:
                named.update(json.loads(path.read_bytes()).get("parts", ()))
        for folder in self._folder.iterdir():
            if folder.is_dir() and folder.name not in named:
                shutil.rmtree(folder)

    def _facts(self, number: int) -> Path:
        return self._folder / f"{number:012d}.json"
