"""A broker whose data directory is a file system of its own, too small: a tmpfs that only its process sees."""

from __future__ import annotations

import os
import subprocess

from systemkit.process import BrokerProcess

MIB = 1 << 20


class SmallDiskBroker(BrokerProcess):
    """Its mounts are gone with it, whatever happens. Needs root: a mount is nothing that can be had without."""

    size = 64 * MIB

    def command(self) -> list[str]:
        assert os.geteuid() == 0, "a small disk needs a private mount, and that needs root"
        self.data_dir.mkdir(parents=True, exist_ok=True)
        mount = f'mount -t tmpfs -o size={self.size} tmpfs "$0" && exec "$@"'
        unshare = ["unshare", "--mount", "--propagation", "private"]
        return [*unshare, "sh", "-c", mount, str(self.data_dir), *super().command()]

    def resize(self, size: int) -> None:
        """Make the disk larger, from outside."""
        enter = ["nsenter", "--target", str(self.pid), "--mount"]
        options = f"remount,size={size}"
        done = subprocess.run([*enter, "mount", "-o", options, str(self.data_dir)], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr

    def free(self) -> int:
        """Bytes left on it."""
        found = os.statvfs(f"/proc/{self.pid}/root{self.data_dir}")
        return found.f_bavail * found.f_frsize
