"""``pipeline run``: what a job needs, and what it is started with."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from iot_mqtt.app.cli import main
from iot_mqtt.app.pipeline import launching
from iot_mqtt.app.pipeline.errors import PipelineError
from iot_mqtt.app.pipeline.launching import Launch, check_java, check_pyspark, find_folder, find_jars


def launch(tmp_path: Path, **more: object) -> Launch:
    return Launch("clean", tmp_path / "spark", tmp_path / "s.json", "local[2]", "1g", **more)  # type: ignore[arg-type]


def submitted(one: Launch) -> list[str]:
    """What spark-submit gets, as pyspark reads it."""
    return shlex.split(one.environment({})["PYSPARK_SUBMIT_ARGS"])


def test_the_driver_is_this_python(tmp_path: Path) -> None:
    """So it has the packages that this command has."""
    assert launch(tmp_path, once=True).command == [
        sys.executable,
        str(tmp_path / "spark" / "jobs" / "clean.py"),
        *("--settings", str(tmp_path / "s.json"), "--once"),
    ]
    assert "--once" not in launch(tmp_path).command


def test_spark_stays_on_loopback_and_in_its_memory(tmp_path: Path) -> None:
    """And what the user adds comes last, where it wins."""
    found = submitted(launch(tmp_path, extra=("--conf", "spark.a=b c", "--driver-memory", "2g")))
    assert found[found.index("--master") + 1] == "local[2]"
    assert "spark.driver.bindAddress=127.0.0.1" in found
    assert "spark.ui.enabled=false" in found
    assert found[-5:] == ["--conf", "spark.a=b c", "--driver-memory", "2g", "pyspark-shell"]
    assert found.index("--driver-memory") < len(found) - 5


def test_the_workers_of_another_machine_reach_the_driver(tmp_path: Path) -> None:
    """Which is what a master that is not local means."""
    far = replace(launch(tmp_path), master="spark://spark-1:7077")
    assert not [one for one in submitted(far) if "127.0.0.1" in one]
    assert "SPARK_LOCAL_IP" not in far.environment({})
    assert launch(tmp_path).environment({})["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_jars_are_named_when_there_are_any(tmp_path: Path) -> None:
    """In one option."""
    found = submitted(launch(tmp_path, jars=[Path("/a.jar"), Path("/b.jar")]))
    assert found[found.index("--jars") + 1] == "/a.jar,/b.jar"
    assert "--jars" not in submitted(launch(tmp_path))


def test_another_spark_of_the_machine_does_not_get_in(tmp_path: Path) -> None:
    """Nor its configuration, nor a JAVA_HOME without Java; a search path stays."""
    environ = {"SPARK_HOME": "/opt/spark2", "SPARK_CONF_DIR": "/etc/spark", "JAVA_HOME": "/none", "PYTHONPATH": "/mine"}
    found = launch(tmp_path).environment(environ)
    assert "SPARK_HOME" not in found
    assert "JAVA_HOME" not in found
    assert not Path(found["SPARK_CONF_DIR"]).exists()
    assert found["PYTHONPATH"] == f"{tmp_path / 'spark'}{os.pathsep}/mine"


def test_the_folder_can_be_named(tmp_path: Path) -> None:
    """It has to be one."""
    with pytest.raises(PipelineError, match="IOT_MQTT_SPARK_DIR"):
        find_folder({"IOT_MQTT_SPARK_DIR": str(tmp_path)})
    (tmp_path / "jobs").mkdir()
    assert find_folder({"IOT_MQTT_SPARK_DIR": str(tmp_path)}) == tmp_path


def test_installed_without_the_source_it_says_where_the_jobs_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel has none."""
    monkeypatch.setattr(launching, "__file__", str(tmp_path / "site-packages" / "launching.py"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError, match="checkout, or name the folder in IOT_MQTT_SPARK_DIR"):
        find_folder({})


def test_missing_jars_are_named_with_their_command(tmp_path: Path) -> None:
    """There they are in order."""
    with pytest.raises(PipelineError, match="make spark-jars"):
        find_jars(tmp_path)
    jars = tmp_path / "target" / "jars"
    jars.mkdir(parents=True)
    for name in ("b.jar", "a.jar", "readme"):
        (jars / name).touch()
    assert [path.name for path in find_jars(tmp_path)] == ["a.jar", "b.jar"]


def test_missing_pyspark_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """As pip takes it."""
    monkeypatch.setattr(launching, "find_spec", lambda name: None)
    with pytest.raises(PipelineError, match=r"pip install 'iot-mqtt\[pipeline\]'"):
        check_pyspark()


@pytest.mark.parametrize(
    ("says", "fits"),
    [
        ('openjdk version "17.0.15" 2025-04-15', True),
        ('openjdk version "21" 2023-09-19', True),
        ('openjdk version "11.0.2" 2019-01-15', False),
        ('java version "1.8.0_202"', False),
        ("something", False),
    ],
)
def test_java_has_to_be_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, fits: bool) -> None:
    """Spark 4 runs on 17 and newer."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if fits:
        check_java()
    else:
        with pytest.raises(PipelineError, match="needs Java 17 or newer"):
            check_java()


def test_no_java_at_all_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the package that has one."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PipelineError, match="openjdk-17"):
        check_java()


def test_what_is_missing_is_one_line_and_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the command."""
    monkeypatch.setenv("IOT_MQTT_SPARK_DIR", str(tmp_path))
    result = CliRunner().invoke(main, ["pipeline", "run", "clean", "--once", "--set", f"node.data_dir={tmp_path}"])
    assert result.exit_code == 1
    assert result.output.startswith("Error: IOT_MQTT_SPARK_DIR")
    assert CliRunner().invoke(main, ["pipeline", "run", "dirty"]).exit_code == 2


def test_settings_are_printed_as_json() -> None:
    """For a cluster, with its own directory."""
    result = CliRunner().invoke(main, ["pipeline", "settings", "--dir", "/mnt/shared/"])
    assert '"tables": "/mnt/shared/tables"' in result.output


def test_jars_are_good_without_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Spark is not installed, or does not start."""
    (tmp_path / "jobs").mkdir()
    monkeypatch.setenv("IOT_MQTT_SPARK_DIR", str(tmp_path))
    monkeypatch.setattr("iot_mqtt.app.engines.shipped.make", lambda folder: folder / "target" / "jars")
    result = CliRunner().invoke(main, ["pipeline", "jars"])
    assert result.exit_code == 0, result.output
    assert str(tmp_path / "target" / "jars") in result.output
    assert "jobs will start more slowly" in result.output
