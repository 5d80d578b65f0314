"""Secrets that stand in files of their own: wherever there is a key ``x`` for one, ``x_file`` names a file with it.

A line end behind the secret is none of it. The file is read when the configuration is; nothing but its path is kept
of where the secret came from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from iot_mqtt.app.config.errors import Problem
from iot_mqtt.app.config.layers import Setting
from iot_mqtt.app.config.limits import KEYS, pattern_of
from iot_mqtt.app.config.maps import MAPS
from iot_mqtt.plain_files import read_plain
from iot_mqtt.secrecy import is_secret

SUFFIX = "_file"
#: A path that leads to something else (a log, a device) is a mistake.
_LARGEST = 64 * 1024
#: As the layers say that there is none.
_NOTHING = (None, "", "null")


def secret_behind(key: str) -> str | None:
    """The key of the secret that this key names a file for; None if it does not."""
    secret = key.removesuffix(SUFFIX)
    return secret if secret != key and pattern_of(key) not in KEYS and is_for_file(secret) else None


def is_for_file(key: str) -> bool:
    """Whether a key is a secret, so that ``_file`` can be put behind its name."""
    for names in MAPS:
        if key.startswith(f"{names}."):
            return is_secret(key.removeprefix(f"{names}."))
    return pattern_of(key) in KEYS and is_secret(key.rpartition(".")[2]) and not key.endswith(SUFFIX)


def with_secrets(settings: Iterable[Setting], problems: list[Problem]) -> Iterator[Setting]:
    """The settings, with what stands in the files in the place of their paths."""
    said: dict[tuple[object, str], Setting] = {}
    for setting in settings:
        secret = secret_behind(setting.key)
        key = secret or setting.key
        if is_for_file(key) and setting.value not in _NOTHING:
            # Between layers the higher one wins; in one of them nobody could tell which is meant.
            other = said.setdefault((setting.origin.layer, key), setting)
            if other.key != setting.key:
                problems.append(Problem(setting.origin, setting.key, f"{other.key} says it, too: write one of them"))
        if secret is None:
            yield setting
        elif (filled := _filled(setting, secret, problems)) is not None:
            yield filled


def _filled(setting: Setting, secret: str, problems: list[Problem]) -> Setting | None:
    if setting.value in _NOTHING:
        return None
    if not isinstance(setting.value, str):
        problems.append(Problem(setting.origin, setting.key, "must be the path of a file"))
        return None
    path = Path(setting.origin.directory) / Path(setting.value).expanduser()
    try:
        content = read_plain(str(path), _LARGEST + 1)
        text = content.decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        told = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "is not text"
        problems.append(Problem(setting.origin, setting.key, f"{path}: {told}"))
        return None
    if not text or len(content) > _LARGEST or not text.isprintable():
        problems.append(
            Problem(setting.origin, setting.key, f"{path}: must have the secret in one line, and nothing else")
        )
        return None
    origin = dataclasses.replace(setting.origin, where=f"{path}, which {setting.origin} names")
    return Setting(secret, text, origin)
