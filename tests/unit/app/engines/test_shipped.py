"""Where the jars are looked for, and made, with the package installed from a wheel."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from iot_mqtt.app.cli import main
from iot_mqtt.app.engines import EngineError, Places, places, shipped


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a wheel brings, installed, with a Maven that makes one jar, or says no when there is no pom."""
    folder = tmp_path / "site-packages" / "iot_mqtt" / "shipped"
    (folder / "cluster" / "config").mkdir(parents=True)
    (folder / "cluster" / "pom.xml").write_text("<project/>")
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\n[ -s pom.xml ] || { echo "no pom"; exit 1; }\n'
        "mkdir -p target/jars/ignite && : >target/jars/ignite/a.jar\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("IOT_MQTT_SHARE", str(tmp_path / "share"))
    for module in (shipped, places):
        monkeypatch.setattr(module, "SHIPPED", folder)
    monkeypatch.chdir(tmp_path)
    return folder


def test_jars_are_made_in_a_folder_of_the_users(wheel: Path) -> None:
    """What was installed is not written to; a cluster's own files are where one is."""
    found = Places(wheel)
    with pytest.raises(EngineError, match="iot-mqtt cluster jars"):
        found.jars("ignite")
    made = shipped.make(found.sources)
    assert found.jars("ignite") == [made / "ignite" / "a.jar"]
    assert made.is_relative_to(Path.cwd() / "share")
    assert not (wheel / "cluster" / "target").exists()
    assert found.state == Path.cwd() / ".cluster"


def test_other_sources_have_other_jars(wheel: Path) -> None:
    """After an update nothing runs on jars of before."""
    before = shipped.make(wheel / "cluster")
    (wheel / "cluster" / "pom.xml").write_text("<project>newer</project>")
    with pytest.raises(EngineError, match="there are no jars"):
        Places(wheel).jars("ignite")
    assert shipped.make(wheel / "cluster") != before


def test_what_maven_says_is_told_and_nothing_half_made_stays(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Likewise that there is none."""
    (wheel / "cluster" / "pom.xml").write_text("")
    with pytest.raises(EngineError, match="no pom"):
        shipped.make(wheel / "cluster")
    assert not list((Path.cwd() / "share").iterdir())
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineError, match="there is no mvn"):
        shipped.make(wheel / "cluster")


def test_jars_are_good_without_archives(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where servers cannot be started, as when an image is built, or are not there."""
    monkeypatch.setattr(Places, "find", lambda: Places(wheel))
    result = CliRunner().invoke(main, ["cluster", "jars"])
    assert result.exit_code == 0, result.output
    assert str(shipped.target(wheel / "cluster") / "jars") in result.output
    assert "servers will start more slowly" in result.output
