"""The example of a vendor: its wheel, in some version, and a terminal of scales that speaks to the broker."""

from __future__ import annotations

import shutil
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iot_mqtt.app.ctl.wheels import sha256_of, wheel_of
from systemkit.process import BrokerProcess
from systemkit.vendors import EXAMPLES, Device

CODEC = "acme-scale"


def wheel(folder: Path, version: str) -> dict[str, str]:
    """The example's wheel, of some version, and what its vendor has published of it."""
    project = folder / version
    shutil.copytree(EXAMPLES / "vendor-plugin", project, ignore=shutil.ignore_patterns("build", "*.egg-info", "*.pyc"))
    for file in (project / "pyproject.toml", project / "src" / "acme_scale" / "codec.py"):
        file.write_text(file.read_text().replace('version = "1.0.0"', f'version = "{version}"'))
    with wheel_of(project) as built:
        kept = Path(shutil.copy(built, folder))
    return {"path": str(kept), "sha256": sha256_of(kept), "version": version}


def misnamed(wheel: dict[str, str], folder: Path, name: str) -> dict[str, str]:
    """The same wheel, whose codec is called otherwise."""
    other = folder / Path(wheel["path"]).name
    folder.mkdir()
    with zipfile.ZipFile(wheel["path"]) as source, zipfile.ZipFile(other, "w") as target:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename.endswith("entry_points.txt"):
                content = content.replace(CODEC.encode() + b" = ", name.encode() + b" = ")
            target.writestr(entry, content)
    return {"path": str(other), "sha256": sha256_of(other), "name": name}


@contextmanager
def terminal(broker: BrokerProcess, name: str = "terminal-4", password: str = "") -> Iterator[None]:
    """A terminal that comes as soon as it is let in, and says a weight again and again."""
    over = threading.Event()
    login = b"\x02ID %b\x03" % f"{name} {password}".strip().encode()

    def weigh() -> None:
        while not over.wait(0.2):
            device = Device(broker, CODEC)
            device.say(login)
            if not device.hear(4, 5):
                continue
            while not over.wait(0.2) and not device.is_closed():
                device.say(b"\x02S 01 +0012.345 kg ST\x03")

    weighing = threading.Thread(target=weigh, daemon=True)
    weighing.start()
    try:
        yield
    finally:
        over.set()
        weighing.join(10)
