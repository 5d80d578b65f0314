"""The same ``ctl`` over a real socket: what the tests in memory take for granted about urllib and Twisted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner

from iot_mqtt.app.cli import main
from tests.unit.admin.adminkit import TOKEN

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The base URL of a site in a process of its own."""
    command = [sys.executable, str(ROOT / "tests" / "unit" / "admin" / "serve_fake.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.communicate(timeout=50)


def test_commands_work_over_a_socket(url: str) -> None:
    """Get, post and delete, with a client id that needs encoding."""

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, ["ctl", "--url", url, "--token", TOKEN, *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    client = "gr\u00fc\u00df/1"
    assert json.loads(run("clients", "show", client, "--json"))["client_id"] == client
    assert "nothing waits to be sent" in run("why", client)
    assert run("publish", "a/b", "x", "--qos", "2") == "matched 3\n"
    assert run("metrics") == "up 1\n"
    assert run("clients", "kick", client) == f"kicked {client}\n"


def test_a_wrong_token_is_exit_code_1_with_the_way_out(url: str) -> None:
    """And the token itself is not repeated."""
    result = CliRunner().invoke(main, ["ctl", "--url", url, "--token", "wr0ng", "status"])
    assert result.exit_code == 1
    assert "admin.token" in result.stderr
    assert "wr0ng" not in result.output


@pytest.mark.parametrize("token", ["first\nsecond", "two words", "sch\u00f6n", "bell\a"])
def test_a_token_that_no_header_can_carry_is_said_to_be_so(url: str, token: str) -> None:
    """Without the token, and without a traceback; from the environment as well."""
    for arguments, environment in ((["--token", token], {}), ([], {"IOT_MQTT_CTL_TOKEN": token})):
        result = CliRunner(env=environment).invoke(main, ["ctl", "--url", url, *arguments, "status"])
        assert (result.exit_code, isinstance(result.exception, SystemExit)) == (1, True)
        assert "Error: the token has a line break" in result.stderr
        assert token not in result.output


def test_a_working_directory_that_is_gone_is_said_to_be_so(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who says where the node is does not need one."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    data = tmp_path / "data"
    data.mkdir()
    (data / "admin.token").write_text(TOKEN)
    for where in ([], ["--data-dir", str(data)]):
        result = CliRunner().invoke(main, ["ctl", *where, "status"])
        assert (result.exit_code, isinstance(result.exception, SystemExit)) == (1, True)
        assert "Error: the working directory is gone" in result.stderr
    for where in (["--data-dir", str(data)], ["--token", TOKEN]):
        assert CliRunner().invoke(main, ["ctl", "--url", url, *where, "metrics"]).stdout == "up 1\n"


def test_a_proxy_of_the_environment_never_sees_the_token(url: str) -> None:
    """``http_proxy`` is for the web, not for the machine's own node."""
    result = CliRunner().invoke(
        main, ["ctl", "--url", url, "--token", TOKEN, "status", "--json"], env={"http_proxy": "http://127.0.0.1:1"}
    )
    assert result.exit_code == 0, result.output


def test_a_token_follows_no_redirection() -> None:
    """Whoever answers may not say who else is sent it."""
    asked = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{server.server_port}/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            result = CliRunner().invoke(main, ["ctl", "--url", url, "--token", TOKEN, "status"])
        finally:
            server.shutdown()
            thread.join()
    assert result.exit_code == 1
    assert "302" in result.stderr
    assert asked == ["/api/v1/status"]
