"""What ``config check`` says of files that are there and can't be used: what ``serve`` would say of them."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from iot_mqtt.app.cli import main
from tests.unit.pipeline.test_revocation_lists import write as write_list
from tests.unit.pipeline.tls_kit import Files

TLS = "listeners.mqtts.tls"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Certificates and keys."""
    folder = tmp_path_factory.mktemp("files")
    made = Files(folder)
    key = load_pem_private_key(Path(made.key).read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    (folder / "locked.key").write_bytes(locked)
    texts = {
        "text": "no PEM\n",
        "acl": "user ann\n",
        "users": "ann:plain\n",
        "short": "abc\n",
        "empty": "",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "good-acl").write_text("[user ann]\nallow publish a/#\n")
    (folder / "good-users").touch()
    os.mkfifo(folder / "pipe")
    (folder / "good-secret").write_text("x" * 32)
    return made


def check(files: Files, *sets: str) -> tuple[int, str]:
    """Exit code and output; ``{}`` in a setting is the folder of the files."""
    arguments = [part for one in sets for part in ("--set", one.replace("{}", str(files.folder)))]
    result = CliRunner().invoke(main, ["config", "check", *arguments])
    return result.exit_code, result.output


SERVER = (f"{TLS}.cert={{}}/server.pem", f"{TLS}.key={{}}/server.key")


@pytest.mark.parametrize(
    ("sets", "key", "words"),
    [
        ((SERVER[0], f"{TLS}.key={{}}/client.key"), TLS, "client.key"),
        ((SERVER[0], f"{TLS}.key={{}}/locked.key"), TLS, "the key is encrypted"),
        ((f"{TLS}.cert={{}}/text", SERVER[1]), TLS, "cannot use {}/text"),
        ((*SERVER, f"{TLS}.ciphers=FOO"), TLS, "ciphers 'FOO'"),
        ((*SERVER, f"{TLS}.ca={{}}/text"), TLS, "cannot use {}/text"),
        ((*SERVER, f"{TLS}.certificates=[{{cert: {{}}/gone.pem}}]"), TLS, "cannot use {}/gone.pem"),
        (("admin.tls.cert={}/server.pem", "admin.tls.key={}/client.key"), "admin.tls", "client.key"),
        (("node.data_dir={}/text",), "node.data_dir", "{}/text: {}/text is no directory"),
        (("node.data_dir={}/text/data",), "node.data_dir", "{}/text is no directory"),
        ((f"{TLS}.cert={{}}/pipe", SERVER[1]), TLS, "is no plain file"),
        (("auth.users_file={}/pipe",), "auth.users_file", "is no plain file"),
        (("auth.acl_file={}/pipe",), "auth.acl_file", "is no plain file"),
        (("auth.acl_file={}/acl",), "auth.acl_file", "acl:1: "),
        (("auth.acl_file=[{}/good-acl, {}/acl]",), "auth.acl_file", "acl:1: "),
        (("auth.users_file={}/users",), "auth.users_file", "users:1: "),
        (("auth.chain=[jwt]", "auth.jwt.secret_file={}/short"), "auth.jwt.secret_file", "at least 32 bytes"),
        (("auth.chain=[jwt]", "auth.jwt.public_key_file={}/text"), "auth.jwt.public_key_file", "no public key"),
        (
            ("listeners.mqtt.auth_chain=[jwt]", "auth.jwt.jwks_file={}/text"),
            "auth.jwt.jwks_file",
            "is no JWKS",
        ),
        (
            ("auth.chain=[http]", "auth.http.url=https://x.example", "auth.http.token_file={}/empty"),
            "auth.http.token_file",
            "is empty",
        ),
        (
            ("auth.chain=[http]", "auth.http.url=https://x.example", "auth.http.ca={}/text"),
            "auth.http.ca",
            "no certificate in PEM",
        ),
        (("log.file={}/gone/x.log",), "log.file", "there is no directory {}/gone"),
        (("log.file={}",), "log.file", "is a directory"),
        (("log.file={}/pipe",), "log.file", "is no plain file"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_problem(files: Files, sets: tuple[str, ...], key: str, words: str) -> None:
    """One line that names the key and the file."""
    code, output = check(files, *sets)
    assert code == 1, output
    lines = [line for line in output.splitlines() if line.startswith((key, f"--set {key}"))]
    assert len(lines) == 1, output
    assert words.replace("{}", str(files.folder)) in lines[0]
    assert "1 problem" in output


def test_a_file_that_is_missing_is_one_problem(files: Files) -> None:
    """Not one that it is missing, and one that it can't be read."""
    code, output = check(files, f"{TLS}.cert={{}}/gone.pem", SERVER[1], "auth.users_file={}/gone")
    assert (code, output.count("does not exist")) == (1, 2)
    assert "2 problems" in output


def test_files_that_can_be_used_are_fine(files: Files) -> None:
    """Nothing is written."""
    told = ("auth.acl_file={}/good-acl", "auth.users_file={}/good-users", "log.file={}/new.log")
    code, output = check(files, *SERVER, f"{TLS}.ca={{}}/ca.pem", *told)
    assert code == 0, output
    assert not (files.folder / "new.log").exists()
    token = ("auth.chain=[jwt]", "auth.jwt.secret_file={}/good-secret", "auth.jwt.jwks_url=https://x.example")
    assert check(files, *token)[0] == 0


def test_a_list_that_is_over_is_noted_and_one_of_another_authority_a_problem(files: Files, tmp_path: Path) -> None:
    """A node serves with the one, and all but clients with certificates get in; not with the other."""
    over = write_list(files, "over")
    lists = (*SERVER, f"{TLS}.ca={{}}/client-ca.pem", f"{TLS}.crl={over}")
    code, output = check(files, *lists)
    assert code == 0
    assert f"{TLS}.crl: the list of revoked certificates {over} is over since 1970-04-19" in output
    foreign = write_list(Files(tmp_path), "foreign")
    code, output = check(files, *lists, f"{TLS}.crl={foreign}")
    assert code == 1 and TLS in output and "crl: " in output and "foreign.pem is of" in output


def test_a_look_at_files_loads_no_library_of_clusters() -> None:
    """And no reactor."""
    code = (
        "import sys\n"
        "import iot_mqtt.app.config.file_checks\n"
        "print([name for name in ('pyignite', 'kazoo', 'confluent_kafka', 'twisted.internet.reactor')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout == "[]\n"


def test_a_certificate_of_another_time_is_noted(files: Files) -> None:
    """One that is not valid yet as well as one that is over: the node could serve, and no client would come."""
    early = datetime.datetime(2900, 1, 1, tzinfo=datetime.UTC)
    issued = files.authority.issue_cert("b", not_before=early, not_after=early + datetime.timedelta(days=1))
    files.save("early", issued)
    code, output = check(files, *SERVER, f"{TLS}.certificates=[{{cert: {{}}/early.pem, key: {{}}/early.key}}]")
    assert code == 0
    assert f"{TLS}.cert: the certificate {files.folder}/early.pem is not valid before 2900-01-01 00:00:00 UTC" in output
    assert "server.pem is" not in output
