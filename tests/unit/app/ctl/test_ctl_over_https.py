"""``ctl`` and the admin port over TLS: whom the one believes, and what the other keeps out."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner, Result

from iot_mqtt.admin.token import announce, load_token
from iot_mqtt.app.cli import main
from tests.unit.admin.adminkit import TOKEN

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]


class Files:
    """Two authorities, a certificate for this machine, one for another name, and a client's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority = trustme.CA()
        self.ca = self._write("ca.pem", self._authority.cert_pem)
        self.stranger = self._write("stranger.pem", trustme.CA().cert_pem)
        self.here = self._issue("127.0.0.1")
        self.elsewhere = self._issue("broker.example")
        self.client = self._issue("operator@example.org")

    def _issue(self, name: str) -> str:
        return self._write(f"{name}.pem", self._authority.issue_cert(name).private_key_and_cert_chain_pem)

    def _write(self, name: str, blob: trustme.Blob) -> str:
        path = self.folder / name
        path.write_bytes(blob.bytes())
        return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Made once for all tests here."""
    return Files(tmp_path_factory.mktemp("https"))


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """The base URL of a site in a process of its own."""
    command = [sys.executable, str(ROOT / "tests" / "unit" / "admin" / "serve_fake.py"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield f"https://127.0.0.1:{process.stdout.readline().strip()}"
        process.communicate(timeout=50)


@pytest.fixture(scope="module")
def url(files: Files) -> Iterator[str]:
    """With the certificate for this machine."""
    with serving(files.here, files.here) as found:
        yield found


def ctl(*arguments: str) -> Result:
    """Run it."""
    return CliRunner().invoke(main, ["ctl", *arguments])


def test_commands_work_over_tls(url: str, files: Files) -> None:
    """Reading and writing, by the authority that is named; a large body arrives as a whole."""
    told = ["--url", url, "--token", TOKEN, "--cacert", files.ca]
    shown = ctl(*told, "clients", "show", "gr\u00fc\u00df/1", "--json")
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["client_id"] == "gr\u00fc\u00df/1"
    published = ctl(*told, "publish", "a/b", "x" * 100_000, "--qos", "2")
    assert published.stdout == "matched 3\n", published.output


def test_another_authority_or_the_systems_is_not_believed(url: str, files: Files) -> None:
    """The token is not sent."""
    for told in ((), ("--cacert", files.stranger)):
        result = ctl("--url", url, "--token", TOKEN, *told, "status")
        assert result.exit_code == 1
        assert "certificate verify failed" in result.stderr


def test_a_certificate_of_another_name_is_not_believed(files: Files, tmp_path: Path) -> None:
    """Unless it is the very one that the node names in its data directory: who reads that has the token anyway."""
    token = load_token(str(tmp_path))
    with serving(files.elsewhere, files.elsewhere) as url:
        result = ctl("--url", url, "--token", TOKEN, "--cacert", files.ca, "status")
        assert result.exit_code == 1
        assert "IP address mismatch" in result.stderr
        announce(str(tmp_path), url, files.elsewhere)
        result = ctl("--data-dir", str(tmp_path), "status")
        assert "admin.token" in result.stderr, "it is believed, and does not know the token of this directory"
        assert token not in result.output
        announce(str(tmp_path), url, files.here)
        assert "certificate verify failed" in ctl("--data-dir", str(tmp_path), "status").stderr


def test_a_port_that_wants_a_certificate_gets_one(files: Files) -> None:
    """Without it nobody gets as far as the token."""
    with serving(files.here, files.here, files.ca) as url:
        told = ["--url", url, "--token", TOKEN, "--cacert", files.ca]
        assert ctl(*told, "status").exit_code == 1
        result = ctl(*told, "--cert", files.client, "metrics")
        assert result.stdout == "up 1\n", result.output


def test_plain_text_is_not_answered(url: str) -> None:
    """Neither a request nor noise; the port goes on."""
    port = int(url.rpartition(":")[2])
    for data in (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", bytes(5000)):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
            sock.sendall(data)
            answer = b""
            try:
                while piece := sock.recv(1000):
                    answer += piece
            except ConnectionResetError:
                pass
            assert answer[:1] in (b"", b"\x15"), "a TLS alert, or nothing"
