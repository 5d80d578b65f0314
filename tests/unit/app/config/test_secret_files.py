"""A secret may stand in a file of its own, whose path takes its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.app.config import ConfigError, LoadedConfig, read_config
from iot_mqtt.app.config.text import explained, reference, shown

SECRET = "s3cret-of-the-grid"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with ``token``, a file that has the secret, and ``application.yaml``, which names it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text(f"{SECRET}\n", encoding="utf-8")
    (tmp_path / "application.yaml").write_text("grid: {ignite: {token_file: token}}\n", encoding="utf-8")
    return tmp_path


def read(directory: Path, *sets: str, **environ: str) -> LoadedConfig:
    return read_config(str(directory / "application.yaml"), sets, environ)


def test_a_secret_is_read_from_its_file(directory: Path) -> None:
    """Without its line end; the path is relative to the file that names it."""
    assert read(directory).config.grid.ignite.token == SECRET


def test_every_secret_can_stand_in_a_file(directory: Path) -> None:
    """Also one among a library's own properties."""
    (directory / "password").write_text("of-kafka", encoding="utf-8")
    secrets = ("registry.zookeeper.password", "uplink.kafka.security.password")
    loaded = read(directory, *(f"{key}_file={directory}/password" for key in secrets))
    assert {loaded.value(key) for key in secrets} == {"of-kafka"}
    loaded = read(directory, "uplink.kafka.options={ssl.key.password_file: password}")
    assert loaded.value("uplink.kafka.options") == {"ssl.key.password": "of-kafka"}


def test_the_reference_names_the_file_of_each_secret() -> None:
    """Nobody should have to guess that there is such a key."""
    lines = [line.strip() for line in reference().splitlines()]
    assert lines.count("#token_file: null") >= 1
    assert lines.count("#password_file: null") >= 2


def test_no_text_says_what_is_in_the_file(directory: Path) -> None:
    """They name the file."""
    loaded = read(directory)
    for text in (
        shown(loaded),
        explained(loaded, "grid.ignite.token") or "",
        explained(loaded, "grid.ignite.token_file") or "",
    ):
        assert SECRET not in text
        assert str(directory / "token") in text


def test_a_higher_layer_wins_whichever_form_it_has(directory: Path) -> None:
    """A key in the environment over a file in the file, and a file on the command line over both."""
    environ = {"IOT_MQTT__GRID__IGNITE__TOKEN": "from-the-environment"}
    assert read(directory, **environ).config.grid.ignite.token == "from-the-environment"
    assert read(directory, "grid.ignite.token_file=token", **environ).config.grid.ignite.token == SECRET


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        (b"", "one line"),
        (b"\n", "one line"),
        (b"two\nlines\n", "one line"),
        (b"nul\0", "one line"),
        (b"x" * 70_000, "one line"),
        (b"\xff\xfe", "is not text"),
    ],
)
def test_a_file_that_has_no_secret_is_refused(directory: Path, content: bytes | None, said: str) -> None:
    """With the key, the path and the reason, and without what is in it."""
    (directory / "token").unlink()
    if content is not None:
        (directory / "token").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read(directory)
    (problem,) = caught.value.problems
    assert problem.key == "grid.ignite.token_file"
    assert said in problem.text
    assert "two" not in problem.text


def test_both_forms_in_one_layer_are_refused(directory: Path) -> None:
    """Nobody could tell which is meant."""
    (directory / "application.yaml").write_text(
        "grid: {ignite: {token: a-token, token_file: token}}\n", encoding="utf-8"
    )
    with pytest.raises(ConfigError, match=r"token_file: grid\.ignite\.token says it, too"):
        read(directory)


def test_other_keys_have_no_file(directory: Path) -> None:
    """What is no secret is written down."""
    with pytest.raises(ConfigError, match="unknown key"):
        read(directory, "node.id_file=token")
