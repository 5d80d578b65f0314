"""A cluster with certificates: what is made, who may read it, and what each kind of server is told."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from iot_mqtt.app.engines import Places, Plan, snippet
from iot_mqtt.app.engines.certificates import files_of, issue
from iot_mqtt.app.engines.plan import BROKER
from tests.unit.app.engines.test_engines import checkout, prepared

__all__ = ["checkout"]


def test_certificates_are_made_once_and_for_the_owner(tmp_path: Path) -> None:
    """A second time makes what is missing, with the same authority."""
    folder = tmp_path / "tls"
    issue(folder, ["a"], ["localhost", "127.0.0.1"])
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {stat.S_IMODE(path.stat().st_mode) for path in before} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    issue(folder, ["a", "b"], ["localhost"])
    assert all(path.read_bytes() == data for path, data in before.items())
    found = files_of(folder, "b")
    certificate = x509.load_pem_x509_certificate(found.certificate.read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes()))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    context = ssl.create_default_context(cafile=str(found.authority))
    context.load_cert_chain(found.both)
    context.load_cert_chain(found.certificate, found.key)


def test_every_server_is_told_of_its_certificates(tmp_path: Path, checkout: Places) -> None:
    """And of nothing in plain text."""
    plan = Plan.make(ignite=1, zookeeper=3, kafka=1, standard_ports=True, tls=str(tmp_path / "tls"))
    ignite = prepared(plan, "ignite-1", tmp_path, checkout)
    for part, name in (("cert", "tls.crt"), ("key", "tls.key"), ("ca", "ca.crt")):
        assert f"-Diot.tls.{part}={tmp_path}/tls/ignite-1/{name}" in ignite
    prepared(plan, "zookeeper-2", tmp_path, checkout)
    told = (tmp_path / "zoo.cfg").read_text().splitlines()
    assert "secureClientPort=2182" in told
    assert "server.2=127.0.0.1:2889:3889" in told
    assert {"ssl.clientAuth=need", "ssl.quorum.clientAuth=need", "sslQuorum=true"} <= set(told)
    assert not [line for line in told if line.startswith("clientPort")]
    prepared(plan, "kafka", tmp_path, checkout)
    text = (tmp_path / "kafka.properties").read_text()
    assert "PLAINTEXT" not in text
    assert "ssl.client.auth=required\n" in text
    assert "listeners=SSL://127.0.0.1:9092,CONTROLLER://127.0.0.1:19092\n" in text


@pytest.mark.parametrize("secure", [True, False])
def test_a_broker_is_told_what_it_has_to_show(secure: bool, tmp_path: Path) -> None:
    """Everywhere, or nowhere."""
    plan = Plan.make(ignite=1, zookeeper=1, kafka=1, tls=str(tmp_path) if secure else None)
    told = snippet.settings(plan)
    for section in ("grid.ignite.tls", "registry.zookeeper.tls", "uplink.kafka.security"):
        expected = str(files_of(tmp_path, BROKER).certificate) if secure else None
        assert told.get(f"{section}.cert") == expected
    assert ("secure" in plan.described()) is secure
    assert ("registry.zookeeper.password" in told) is secure
