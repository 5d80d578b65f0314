"""The secret of the API: made at the first start, kept in the data directory, readable by its owner only."""

from __future__ import annotations

import errno
import hmac
import secrets
from pathlib import Path

from iot_mqtt.plain_files import read_plain
from iot_mqtt.whole_files import new_file

TOKEN_FILE = "admin.token"  # noqa: S105 - the name of the file, not the token
ADDRESS_FILE = "admin.url"
CERTIFICATE_FILE = "admin.cert"


def load_token(data_dir: str) -> str:
    """The token of this data directory; raises ``OSError`` if it can neither be read nor written."""
    path = Path(data_dir) / TOKEN_FILE
    Path(data_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
    token = _read(path)
    if token:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        return token
    token = secrets.token_urlsafe(32)
    _write(path, token)
    return token


def read_token(data_dir: str) -> str | None:
    """The token as ``ctl`` finds it; None if no node ever started there."""
    return _read(Path(data_dir) / TOKEN_FILE)


def announce(data_dir: str, url: str, certificate: str | None = None) -> None:
    """Leave the base URL of the admin port for ``ctl``: with port 0 nobody could know it beforehand. Also which file
    its certificate is in: whoever may read this directory may trust it, whoever signed it.
    """
    _write(Path(data_dir) / ADDRESS_FILE, url)
    if certificate is None:
        (Path(data_dir) / CERTIFICATE_FILE).unlink(missing_ok=True)
    else:
        _write(Path(data_dir) / CERTIFICATE_FILE, certificate)


def announced(data_dir: str) -> str | None:
    """The base URL that a node left, maybe one that has since stopped."""
    return _read(Path(data_dir) / ADDRESS_FILE)


def announced_certificate(data_dir: str) -> str | None:
    """The file with the certificate of the port that a node left."""
    return _read(Path(data_dir) / CERTIFICATE_FILE)


def same(one: bytes, other: bytes) -> bool:
    """Compare secrets in a time that does not tell where they differ."""
    return hmac.compare_digest(one, other)


def _read(path: Path) -> str | None:
    try:
        return read_plain(str(path)).decode().strip() or None
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise OSError(errno.EINVAL, "is not UTF-8: move it away, the next start writes another", str(path)) from error


def _write(path: Path, text: str) -> None:
    try:
        with new_file(path, secret=True) as file:
            file.write(f"{text}\n".encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
