"""What vendors bring, and their devices: projects as pip leaves them in an environment, and raw sockets."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from systemkit.process import BrokerProcess

VENDORS = Path(__file__).resolve().parents[1] / "vendors"
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def installed(site: Path, project: Path, also: str = "") -> None:
    """Leave a project in ``site`` as pip would; its codec has a second name, which ends with ``also``."""
    told = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    files = [path for path in sorted((project / "src").rglob("*")) if path.is_file() and path.suffix != ".pyc"]
    relative = [path.relative_to(project / "src") for path in files]
    for path, name in zip(files, relative, strict=True):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, site / name)
    points: dict[str, str] = told["entry-points"]["iot_mqtt.codecs"]
    points |= {f"{name}{also}": target for name, target in points.items()}
    info = site / f"{told['name'].replace('-', '_')}-{told['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {told['name']}\nVersion: {told['version']}\n")
    lines = "".join(f"{name} = {where}\n" for name, where in points.items())
    (info / "entry_points.txt").write_text(f"[iot_mqtt.codecs]\n{lines}")
    told_by_pip = [f"{info.name}/{name}" for name in ("METADATA", "entry_points.txt", "RECORD")]
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in (*relative, *told_by_pip)))


def project_of(folder: Path, name: str, source: str, version: str = "1.0") -> Path:
    """Write a vendor's project whose only class is ``Device``."""
    package = folder / "src" / name.replace("-", "_")
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(source)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "{name}"\nversion = "{version}"\n'
        f'[project.entry-points."iot_mqtt.codecs"]\n{name} = "{package.name}:Device"\n'
    )
    return folder


@contextmanager
def environment(site: Path) -> Iterator[None]:
    """Processes that are started meanwhile see ``site``."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(site), *([before] if before else [])])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def plugin(broker: BrokerProcess, name: str) -> Any:
    """One plugin, as the admin API tells it."""
    return _asked(broker, name)


def reload(broker: BrokerProcess, name: str) -> Any:
    """As ``ctl plugins reload`` does it; the plugin, or why not."""
    return _asked(broker, f"{name}/reload", b'{"drain": false}')


def _asked(broker: BrokerProcess, path: str, body: bytes | None = None) -> Any:
    url = f"http://127.0.0.1:{broker.ports['admin']}/api/v1/plugins/{path}"
    token = (broker.data_dir / "admin.token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=50) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.read().decode()


def listeners(ports: Mapping[str, int]) -> dict[str, object]:
    """Settings of a listener for each codec."""
    return {
        f"listeners.{codec}.{key}": value
        for codec, port in ports.items()
        for key, value in (("codec", codec), ("port", port))
    }


class Device:
    """One connection of a device, by raw socket."""

    def __init__(self, broker: BrokerProcess, codec: str, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection(
            ("127.0.0.1", broker.ports[codec]), timeout=50, source_address=(host, 0)
        )
        self.heard = b""

    def say(self, *frames: bytes) -> None:
        self._socket.sendall(b"".join(frames))

    def hear(self, count: int, within: float = 10) -> bytes:
        """Wait until so many bytes came in all, the connection ended, or the time is over; all that came."""
        end = time.monotonic() + within
        while len(self.heard) < count and (left := end - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(65_536)
            except TimeoutError:
                break
            except ConnectionError:
                data = b""
            if not data:
                break
            self.heard += data
        return self.heard

    def until_closed(self, within: float = 10) -> bytes:
        """All that came until the broker closed."""
        end = time.monotonic() + within
        while True:
            self._socket.settimeout(max(0.001, end - time.monotonic()))
            try:
                data = self._socket.recv(65_536)
            except ConnectionError:
                return self.heard
            if not data:
                return self.heard
            self.heard += data

    def is_closed(self) -> bool:
        """Whether the broker has closed; it may have said something before."""
        self._socket.settimeout(0.001)
        try:
            while data := self._socket.recv(65_536):
                self.heard += data
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return True

    def close(self) -> None:
        self._socket.close()
