"""The parts of a release: none with a known fault, and all of them on the list."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scripts import parts

LOCK = """\
# made by pip-compile
attrs==25.1.0 \\
    --hash=sha256:{a} \\
    --hash=sha256:{b}
    # via twisted
twisted[tls]==24.3.0 ; python_version > "3" \\
    --hash=sha256:{a}
    # via iot-mqtt
zstd-jni==1.0
""".format(a="a" * 64, b="b" * 64).replace("twisted[tls]", "twisted")


def test_a_lock_is_read_with_its_hashes() -> None:
    """Each part once, with every file that pip would take."""
    bom = parts.python_bom(LOCK)
    assert [component["purl"] for component in bom["components"]] == [
        "pkg:pypi/attrs@25.1.0",
        "pkg:pypi/twisted@24.3.0",
        "pkg:pypi/zstd-jni@1.0",
    ]
    assert [one["value"][0] for one in bom["components"][0]["properties"]] == ["a", "b"]


def test_all_of_the_real_lock_is_listed() -> None:
    """As many as there are pins in it."""
    text = parts.LOCK.read_text(encoding="utf-8")
    assert len(parts.python_bom(text)["components"]) == text.count("==") == len(parts.locked(text)) > 10


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("netty-handler-4.1.113.Final.jar", ("netty-handler", "4.1.113.Final")),
        (
            "netty-transport-native-epoll-4.1.113.Final-linux-x86_64.jar",
            ("netty-transport-native-epoll", "4.1.113.Final"),
        ),
        ("kafka_2.13-3.9.2.jar", ("kafka_2.13", "3.9.2")),
        ("zstd-jni-1.5.6-4.jar", ("zstd-jni", "1.5.6")),
        ("spark-sql-kafka-0-10_2.13-4.0.2.jar", ("spark-sql-kafka-0-10_2.13", "4.0.2")),
    ],
)
def test_a_jar_says_by_its_name_what_it_is(name: str, part: tuple[str, str], tmp_path: Path) -> None:
    """With Netty's classifiers and Kafka's version of Scala."""
    (tmp_path / name).touch()
    (found,) = parts.jars([tmp_path])
    assert (found[0], parts.numbers(found[1])) == (part[0], parts.numbers(part[1]))


def test_what_is_older_than_its_cure_is_told() -> None:
    """By numbers, not by letters; what nobody wrote about is let through."""
    cured = {
        "pypi/twisted": {"from": "24.7.0", "ids": ["CVE-1"]},
        "maven/io.netty/netty-handler": {"from": "4.1.99", "ids": ["CVE-2", "CVE-3"]},
    }
    java = [("netty-handler", "4.1.100.Final"), ("netty-handler", "4.1.98.Final"), ("other", "0.1")]
    told = parts.too_old(cured, {"twisted": "24.3.0", "attrs": "1"}, java)
    assert told == [
        "pypi/twisted 24.3.0 has CVE-1: take 24.7.0 or later",
        "maven/io.netty/netty-handler 4.1.98.Final has CVE-2, CVE-3: take 4.1.99 or later",
    ]


class _Osv(BaseHTTPRequestHandler):
    """Two of OSV.dev's calls, as api.osv.dev answers them: a batch has ids only."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        named = [query["package"]["purl"] for query in body["queries"]]
        self._answer(
            {"results": [{"vulns": [{"id": "GHSA-x"}]} if "h2@" in purl or "bad@" in purl else {} for purl in named]}
        )

    def do_GET(self) -> None:
        self._answer({"id": self.path.rpartition("/")[2], "aliases": ["CVE-2021-42392"]})

    def _answer(self, value: object) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def osv(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """OSV.dev, as far as ``audit`` asks it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Osv)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setattr(parts, "OSV", f"http://127.0.0.1:{server.server_port}")
    yield
    server.shutdown()
    thread.join()
    server.server_close()


def _bom(folder: Path, *purls: str) -> Path:
    (folder / "x.cdx.json").write_text(json.dumps({"components": [{"purl": purl} for purl in purls]}), encoding="utf-8")
    return folder


@pytest.mark.usefixtures("osv")
def test_an_audit_fails_for_what_nobody_has_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By any of an advisory's names."""
    assert parts.audit(_bom(tmp_path, "pkg:maven/com.h2database/h2@1.4.197?type=jar", "pkg:pypi/fine@1")) == 0
    assert parts.audit(_bom(tmp_path, "pkg:pypi/bad@1")) == 1
    assert "pkg:pypi/bad@1: GHSA-x, CVE-2021-42392" in capsys.readouterr().out


def test_an_audit_that_could_not_ask_is_not_taken_for_a_good_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own exit code, as for a folder without lists."""
    monkeypatch.setattr(parts, "OSV", "http://127.0.0.1:1")
    assert parts.audit(tmp_path) == 2
    assert parts.audit(_bom(tmp_path, "pkg:pypi/fine@1")) == 2
