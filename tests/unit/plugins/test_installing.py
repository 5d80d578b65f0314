"""``ctl plugins install``: real pip, real projects and wheels, no network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import pytest_twisted

from iot_mqtt.plugins.info import PluginError
from tests.reactor import run
from tests.unit.plugins.plugkit import PLAIN, FakeSink, House, info_of, settings


def project(folder: Path, version: str, *, group: str = "iot_mqtt.codecs") -> Path:
    """A vendor's project."""
    package = folder / "src" / "vendor_codec"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "tables.py").write_text(f"NAME = {version!r}\n")
    (package / "lazy.py").write_text(f"value = {version!r}\n")
    (package / "codec.py").write_text(PLAIN.format(package="vendor_codec", version=version))
    (folder / "pyproject.toml").write_text(
        f"""
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "vendor-codec"
version = "{version}"
[project.entry-points."{group}"]
vendor = "vendor_codec.codec:Plain"
"""
    )
    return folder


def test_a_project_is_installed_enabled_replaced_and_rolled_back(here: House, tmp_path: Path) -> None:
    """Each version in a folder of its own; nothing in the environment is touched."""
    plugins = here.start()
    (found,) = run(plugins.install(str(project(tmp_path / "one", "1.0"))))
    assert (found.name, found.state) == ("vendor", "disabled")
    assert run(plugins.enable("vendor")).version == "1.0"
    wheels = tmp_path / "wheels"
    flags = ["-q", "--no-deps", "--no-index", "--no-build-isolation", "-w", str(wheels)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *flags, str(project(tmp_path / "two", "2.0"))], check=True)
    (wheel,) = wheels.glob("*.whl")
    (found,) = run(plugins.install(str(wheel)))
    assert found.version == "1.0", "installing changes nothing that runs"
    assert run(plugins.reload("vendor")).version == "2.0"
    assert run(plugins.rollback("vendor")).version == "1.0"
    plugins.stop()
    plugins = here.start()
    assert [one.version for one in info_of(plugins, "vendor").versions if one.current] == ["1.0"]
    opened = plugins.open("vendor", "p:1", FakeSink())
    assert opened.version == "1.0"
    assert "vendor_codec" not in sys.modules


@pytest_twisted.ensureDeferred
async def test_what_is_no_plugin_is_refused_with_the_reason(here: House, tmp_path: Path) -> None:
    """And leaves nothing behind."""
    plugins = here.start(acme=settings("inline"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "pyproject.toml").write_text("[build-system\n")
    for path, reason in (
        ("relative", "absolute"),
        (str(tmp_path / "nothing"), "there is no"),
        (str(tmp_path / "empty"), "no pyproject"),
        (str(tmp_path / "text.txt"), "neither a wheel"),
        (str(broken), "pip could not install"),
        (str(project(tmp_path / "other", "1.0", group="other.group")), "no entry point"),
    ):
        with pytest.raises(PluginError, match=reason):
            await plugins.install(path)
    assert [one.name for one in here.folder.iterdir()] == ["state.json"]
