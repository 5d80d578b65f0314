"""The archive of Spark's classes, which ``make spark-jars`` leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from iot_spark import session
from pyspark.sql import SparkSession


def test_a_driver_has_its_classes_from_the_archive(spark: SparkSession) -> None:
    """Java takes one that does not fit for none, and says nothing: it must be seen that it is there."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    mapped = Path(f"/proc/{gateway.proc.pid}/maps").read_text()
    assert str(session.ARCHIVE) in mapped


def test_without_an_archive_java_is_told_of_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an installation without Maven."""
    monkeypatch.setattr(session, "ARCHIVE", tmp_path / "classes.jsa")
    assert not [one for one in session.java_options() if "SharedArchiveFile" in one]
    session.ARCHIVE.touch()
    assert f"-XX:SharedArchiveFile={session.ARCHIVE}" in session.java_options()
