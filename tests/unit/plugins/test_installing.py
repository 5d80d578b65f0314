"""``ctl plugins install``: real pip, real projects and wheels, no network."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import click
import pytest
import pytest_twisted

from iot_mqtt.app.ctl.wheels import sha256_of, wheel_of
from iot_mqtt.plugins.info import PluginError
from tests.reactor import run
from tests.unit.plugins.plugkit import PLAIN, FakeSink, House, info_of, settings

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow


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


def misnamed(wheel: str, folder: Path, name: str) -> tuple[str, str]:
    """The same wheel, with another name for its codec, and its hash."""
    folder.mkdir()
    other = folder / Path(wheel).name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(other, "w") as target:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename.endswith("entry_points.txt"):
                content = content.replace(b"vendor = ", name.encode() + b" = ")
            target.writestr(entry, content)
    return str(other), sha256_of(other)


#: What was built of projects, by all that is in them: name and content.
_built: dict[str, tuple[str, bytes]] = {}


def wheel(project: Path, wheels: Path) -> tuple[str, str]:
    """The project's wheel as ctl builds it, and its hash. It takes two seconds: the same is built once."""
    wheels.mkdir()
    files = sorted(path for path in project.rglob("*") if path.is_file())
    key = repr([(str(path.relative_to(project)), path.read_bytes()) for path in files])
    if key not in _built:
        with wheel_of(project) as built:
            _built[key] = Path(built).name, Path(built).read_bytes()
    name, content = _built[key]
    copy = wheels / name
    copy.write_bytes(content)
    return str(copy), sha256_of(copy)


def test_a_project_is_installed_enabled_replaced_and_rolled_back(here: House, tmp_path: Path) -> None:
    """Each version in a folder of its own; nothing in the environment is touched."""
    plugins = here.start()
    (found,) = run(plugins.install(*wheel(project(tmp_path / "one", "1.0"), tmp_path / "w1")))
    assert (found.name, found.state) == ("vendor", "disabled")
    assert run(plugins.enable("vendor")).version == "1.0"
    (found,) = run(plugins.install(*wheel(project(tmp_path / "two", "2.0"), tmp_path / "w2")))
    assert found.version == "1.0", "installing changes nothing that runs"
    assert run(plugins.reload("vendor")).version == "2.0"
    assert run(plugins.rollback("vendor")).version == "1.0"
    plugins.stop()
    plugins = here.start()
    assert [one.version for one in info_of(plugins, "vendor").versions if one.current] == ["1.0"]
    opened = plugins.open("vendor", "p:1", FakeSink())
    assert opened.version == "1.0"
    assert "vendor_codec" not in sys.modules


@pytest.mark.parametrize(
    ("dependency", "missing"),
    [
        ("none-such-library>=1", True),
        ("twisted>=9999", True),
        ("twisted[none-such-extra]>=20", False),
        ("none-such-library; python_version < '3'", False),
    ],
)
def test_a_dependency_that_is_not_installed_is_named(
    here: House, tmp_path: Path, dependency: str, *, missing: bool
) -> None:
    """It would be missed when the codec is loaded, or in the middle of the night."""
    plugins = here.start()
    vendors_own = project(tmp_path / "one", "1.0")
    settings = vendors_own / "pyproject.toml"
    named = f'name = "vendor-codec"\ndependencies = ["{dependency}"]'
    settings.write_text(settings.read_text().replace('name = "vendor-codec"', named))
    sent = wheel(vendors_own, tmp_path / "w")
    if not missing:
        assert [one.name for one in run(plugins.install(*sent))] == ["vendor"]
        return
    with pytest.raises(PluginError, match="not installed beside the broker") as refused:
        run(plugins.install(*sent))
    assert dependency in str(refused.value)
    assert "vendor" not in [one.name for one in plugins.info()]


def test_what_is_installed_is_on_the_disk(here: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut takes neither its files, nor their names, nor what was decided about them."""
    plugins, fsync = here.start(), os.fsync
    synced: list[Path] = []

    def note(file: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{file}")))
        fsync(file)

    monkeypatch.setattr(os, "fsync", note)
    run(plugins.install(*wheel(project(tmp_path / "one", "1.0"), tmp_path / "w")))
    names = [path.name for path in synced]
    (folder,) = (path for path in synced if path.name == "vendor_codec" and path.parent.name.startswith(".new-"))
    assert {"codec.py", "tables.py", "lazy.py", folder.parent.name} <= set(names)
    decided = names.index("state.json.new")
    above = here.folder.parent.name
    assert names[decided - 3 : decided] == ["vendor_codec", "plugins", above]
    assert names[-2:] == ["plugins", above]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("<img src=x onerror=alert(1)>", "<img src"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("../vendor", "../vendor"),
        ("Waage Ü", "Waage Ü"),
        ("v" * 65, "v" * 65),
    ],
)
def test_a_codec_whose_name_is_none_is_refused(here: House, tmp_path: Path, name: str, read: str) -> None:
    """It would stand in topics, keys of the configuration and on pages. The message says what a name is made of."""
    plugins = here.start()
    good, _ = wheel(project(tmp_path / "one", "1.0"), tmp_path / "w")
    with pytest.raises(PluginError, match="letters, digits") as refused:
        run(plugins.install(*misnamed(good, tmp_path / "bad", name)))
    assert repr(read) in str(refused.value)
    assert [one.name for one in plugins.info()] == [one.name for one in here.start().info()]


@pytest.mark.parametrize(("name", "owner"), [("gateway", "iot-mqtt"), ("vendor", "vendor-codec")])
def test_a_name_that_is_another_ones_is_refused(here: House, tmp_path: Path, name: str, owner: str) -> None:
    """Else it would be the next version of that, and the next `reload` would switch to it."""
    plugins = here.start()
    run(plugins.install(*wheel(project(tmp_path / "one", "1.0"), tmp_path / "w1")))
    other = project(tmp_path / "other", "9.0")
    settings = other / "pyproject.toml"
    text = settings.read_text().replace("vendor-codec", "other.codec").replace("vendor = ", f"{name} = ")
    settings.write_text(text)
    with pytest.raises(PluginError, match=f"other.codec and has a codec {name}, which is {owner}'s"):
        run(plugins.install(*wheel(other, tmp_path / "w2")))
    assert name == "gateway" or [one.version for one in info_of(plugins, name).versions] == ["1.0"]


def test_an_installed_codec_whose_name_is_none_is_left_out(
    here: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And named in the log; the others of its distribution are there."""
    info = tmp_path / "site" / "odd-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[iot_mqtt.codecs]\n<b>odd</b> = odd:Odd\neven = odd:Even\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    names = [one.name for one in here.start().info()]
    assert "even" in names and not any("<" in name for name in names)
    assert "'<b>odd</b>'" in caplog.text


@pytest_twisted.ensureDeferred
async def test_what_is_no_plugin_is_refused_with_the_reason(here: House, tmp_path: Path) -> None:
    """And leaves nothing behind."""
    plugins = here.start(acme=settings("inline"))
    (tmp_path / "text.txt").write_text("")
    broken, forged = tmp_path / "broken-1.0-py3-none-any.whl", tmp_path / "forged-1.0-py3-none-any.whl"
    broken.write_bytes(b"PK, but nothing more")
    with zipfile.ZipFile(forged, "w") as inside:
        inside.writestr("forged/__init__.py", "")
    other, other_hash = wheel(project(tmp_path / "other", "1.0", group="other.group"), tmp_path / "w")
    for path, sha256, reason in (
        ("relative", "0" * 64, "absolute"),
        (str(tmp_path / "nothing.whl"), "0" * 64, "there is no"),
        (str(project(tmp_path / "one", "1.0")), "0" * 64, "is a directory; `ctl plugins install` builds"),
        (str(tmp_path / "text.txt"), "0" * 64, "is no wheel"),
        (other, "0" * 63, "64 hexadecimal digits"),
        (other, "0" * 64, f"has the hash {other_hash}, not 0000"),
        (str(broken), sha256_of(broken), "is no wheel"),
        (str(forged), sha256_of(forged), "pip could not install"),
        (other, other_hash, "no entry point"),
    ):
        with pytest.raises(PluginError, match=reason):
            await plugins.install(path, sha256)
    assert [one.name for one in here.folder.iterdir()] == ["state.json"]


def test_nothing_of_a_package_runs_when_it_is_installed(here: House, tmp_path: Path) -> None:
    """Not its modules, not a .pth file, not its scripts, though pip unpacks all of them."""
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'w')"
    there = project(tmp_path / "one", "1.0")
    (there / "src" / "vendor_codec" / "__init__.py").write_text(code)
    (there / "src" / "vendor.pth").write_text(f"import sys; {code}")
    path, _ = wheel(there, tmp_path / "w")
    with zipfile.ZipFile(path, "a") as inside:
        inside.writestr("vendor.pth", f"import sys; {code}")
        inside.writestr("sitecustomize.py", code)
        inside.writestr("setup.py", code)
    plugins = here.start()
    (found,) = run(plugins.install(path, sha256_of(Path(path))))
    assert found.name == "vendor"
    assert not ran.exists()


def test_only_wheels_that_are_allowed_are_installed(here: House, tmp_path: Path) -> None:
    """Where the configuration names some, an operator's word is not enough."""
    first, second = (wheel(project(tmp_path / one, one), tmp_path / f"w{one}") for one in ("1.0", "2.0"))
    plugins = here.start_with(allowed=[first[1]])
    with pytest.raises(PluginError, match=r"plugins\.allowed_wheels does not name"):
        run(plugins.install(*second))
    assert [one.name for one in run(plugins.install(*first))] == ["vendor"]


def test_a_project_that_cannot_be_built_is_told_by_ctl(tmp_path: Path) -> None:
    """With pip's own words, and where there is no project without them."""
    (tmp_path / "pyproject.toml").write_text("[build-system\n")
    with pytest.raises(click.ClickException, match="could not build a wheel"), wheel_of(tmp_path):
        pass
    (tmp_path / "empty").mkdir()
    with pytest.raises(click.ClickException, match=r"no pyproject\.toml"), wheel_of(tmp_path / "empty"):
        pass


def test_a_wheel_that_is_sent_is_as_good_as_one_that_lies_there(here: House, tmp_path: Path) -> None:
    """With the same hash to name, and nothing left of it beside the version."""
    path, sha256 = wheel(project(tmp_path / "one", "1.0"), tmp_path / "w")
    content, plugins = Path(path).read_bytes(), here.start()
    for filename, hashed, reason in (
        ("../evil.whl", sha256, "not what a wheel is called"),
        ("evil.txt", sha256, "not what a wheel is called"),
        (Path(path).name, "0" * 64, f"has the hash {sha256}"),
    ):
        with pytest.raises(PluginError, match=reason):
            run(plugins.take_in(content, filename, hashed))
    assert [one.name for one in run(plugins.take_in(content, Path(path).name, sha256))] == ["vendor"]
    assert sorted(one.name for one in here.folder.iterdir()) == ["state.json", "vendor_codec"]


def test_a_version_that_is_kept_is_held_against_the_kit(here: House, tmp_path: Path) -> None:
    """Each line of the card but those that need more rights than a codec has; what is not there is said."""
    plugins = here.start()
    run(plugins.install(*wheel(project(tmp_path / "one", "1.0"), tmp_path / "w")))
    report = run(plugins.check("vendor"))
    assert (report.name, report.label.partition("-")[0]) == ("vendor", "1.0")
    verdicts = {one.name: one.verdict for one in report.checks}
    assert verdicts["fits"] == "pass"
    assert "isolated" not in verdicts
    assert report.ok is ("fail" not in verdicts.values())
    with pytest.raises(PluginError, match="there is no version '9'"):
        run(plugins.check("vendor", "9"))


def test_a_check_runs_a_codec_without_rights(here: House, tmp_path: Path) -> None:
    """It may write no file, and knows nothing of the node's surroundings."""
    there, target = project(tmp_path / "one", "1.0"), tmp_path / "written"
    code = f"""
import os
try:
    open({str(target)!r}, "w")
except OSError as error:
    raise ImportError(f"{{type(error).__name__}}, {{sorted(os.environ)}}")
"""
    (there / "src" / "vendor_codec" / "__init__.py").write_text(code)
    plugins = here.start()
    (found,) = run(plugins.install(*wheel(there, tmp_path / "w")))
    with pytest.raises(PluginError, match="cannot be imported") as refused:
        run(plugins.check("vendor", found.versions[-1].label if found.versions else None))
    assert not target.exists()
    assert "PermissionError" in refused.value.detail
    assert "IOT_MQTT" not in refused.value.detail and "HOME" not in refused.value.detail
