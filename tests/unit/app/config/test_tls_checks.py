"""What is said about TLS that would not work as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.app.config import ConfigError, load_config

CERT = ("listeners.mqtts.tls.cert=/dev/null", "listeners.mqtts.tls.key=/dev/null")


@pytest.mark.parametrize(
    ("sets", "served"),
    [
        (("admin.host=0.0.0.0",), False),
        (("admin.host=broker.example",), False),
        (("admin.host=::1",), True),
        (("admin.host=0.0.0.0", "admin.allow_plain=true"), True),
        (("admin.host=0.0.0.0", "admin.tls.cert=/dev/null", "admin.tls.key=/dev/null"), True),
        (("admin.host=0.0.0.0", "admin.enabled=false"), True),
    ],
)
def test_the_token_is_not_sent_in_plain_text_by_mistake(sets: tuple[str, ...], served: bool) -> None:
    """Beyond loopback the admin port speaks TLS, or somebody wrote that it need not."""
    if served:
        load_config(None, sets, {})
        return
    with pytest.raises(ConfigError, match=r"(?s)admin\.host.*listens beyond loopback without TLS"):
        load_config(None, sets, {})


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (("listeners.mqtt.tls.crl=/dev/null",), "listeners.mqtt.tls.cert: must be set beside crl"),
        ((*CERT, "listeners.mqtts.tls.crl=/dev/null"), "listeners.mqtts.tls.ca: must be set beside crl"),
        ((*CERT, "listeners.mqtts.tls.certificates=[{key: a}]"), "entry 1: needs cert"),
        ((*CERT, "listeners.mqtts.tls.certificates=[{cert: a, kye: b}]"), "entry 1: kye: there is no such key"),
        ((*CERT, f"listeners.mqtts.tls.certificates=[{', '.join(['{cert: a}'] * 101)}]"), "more than 100"),
    ],
)
def test_what_would_not_work_is_said(sets: tuple[str, ...], words: str) -> None:
    """With the key, before anything is opened."""
    with pytest.raises(ConfigError) as refusal:
        load_config(None, sets, {})
    assert words in str(refusal.value)


def test_paths_in_lists_start_where_the_file_is(tmp_path: Path) -> None:
    """As those of single keys do."""
    for name in ("a.pem", "b.pem", "b.key", "one.crl", "ca.pem"):
        (tmp_path / name).touch()
    file = tmp_path / "broker.yaml"
    file.write_text(
        """
listeners:
  mqtts:
    tls: {cert: a.pem, key: a.pem, ca: ca.pem, crl: [one.crl], certificates: [{cert: b.pem, key: b.key}, {cert: a.pem}]}
"""
    )
    tls = load_config(str(file), (), {}).listeners["mqtts"].tls
    assert tls.crl == (str(tmp_path / "one.crl"),)
    pem = str(tmp_path / "a.pem")
    assert tls.pairs == ((str(tmp_path / "b.pem"), str(tmp_path / "b.key")), (pem, pem))
