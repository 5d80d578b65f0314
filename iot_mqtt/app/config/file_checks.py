"""Whether the files that a configuration names can be used, by what a node reads them with. Nothing is written.

A node that starts reads them itself, and one that runs keeps what it had where a file is wrong: this is for whoever
asks beforehand.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final

from iot_mqtt.app.config.errors import Layer, Problem
from iot_mqtt.app.config.reading import LoadedConfig, hidden
from iot_mqtt.app.config.tls_checks import make_tls_settings, tls_sections
from iot_mqtt.auth.acl_files import AclFiles
from iot_mqtt.auth.building import names_of
from iot_mqtt.auth.files import FileError, WatchedFile
from iot_mqtt.auth.users import parse_users
from iot_mqtt.pipeline.certificates import read_certificate
from iot_mqtt.pipeline.revocation_lists import read_lists, troubles
from iot_mqtt.pipeline.tls_context import TlsConfigurationError, TlsContext

#: The key, where it is not the written one, and what is wrong.
Found = Iterator[tuple[str, str]]
#: The keys of files with keys for tokens, and the parsers of ``token_keys``.
_TOKEN_KEYS: Final = {"secret_file": "secret_key", "public_key_file": "public_key", "jwks_file": "key_set"}


def file_problems(loaded: LoadedConfig, known: Collection[Problem]) -> list[Problem]:
    """What keeps a node from being served with files that are there. Keys of ``known`` are not looked at."""
    wrong = tuple(problem.key for problem in known)
    found = []
    for look in (_data_dir, _tls, _users, _rules, _tokens, _service, _log):
        for key, text in look(loaded):
            if not any(one == key or one.startswith(f"{key}.") for one in wrong):
                origin = loaded.origin(f"{key}.cert" if key.endswith(".tls") else key)
                found.append(Problem(None if origin.layer is Layer.DEFAULT else origin, key, text))
    return hidden(found, (setting for settings in loaded.written.values() for setting in settings))


def _tls(loaded: LoadedConfig) -> Found:
    for prefix, tls in tls_sections(loaded).items():
        settings = make_tls_settings(tls)
        if settings is not None:
            try:
                TlsContext(settings)
            except TlsConfigurationError as error:
                yield prefix, str(error)


def file_notes(loaded: LoadedConfig, now: float) -> Iterator[Problem]:
    """Of files that can be used, what is wrong with the time that they are good for. Those that can't are problems."""
    for prefix, tls in tls_sections(loaded).items():
        key = f"{prefix}.cert"
        for path in (tls.cert, *(cert for cert, _ in tls.pairs)):
            if path is not None and (text := read_certificate(path).trouble(now)) is not None:
                yield Problem(loaded.origin(key), key, f"the certificate {path} {text}")
        key = f"{prefix}.crl"
        for trouble in troubles((one for path in tls.crl for one in read_lists(path)), now):
            yield Problem(loaded.origin(key), key, trouble)


def _users(loaded: LoadedConfig) -> Found:
    yield from _read("auth.users_file", loaded.config.auth.users_file, parse_users)


def _rules(loaded: LoadedConfig) -> Found:
    for path in loaded.config.auth.acl_file or ():
        try:
            AclFiles((path,))
        except FileError as error:
            yield "auth.acl_file", str(error)


def _tokens(loaded: LoadedConfig) -> Found:
    """Of the link ``jwt``, where there is one."""
    if "jwt" not in _links(loaded):
        return
    # Late: who has no such link need not load the libraries.
    from iot_mqtt.auth import token_keys

    jwt = loaded.config.auth.jwt
    for part, parser in _TOKEN_KEYS.items():
        yield from _read(f"auth.jwt.{part}", getattr(jwt, part), getattr(token_keys, parser))
    if jwt.jwks_url is not None:
        yield from _authorities("auth.jwt.jwks_ca", jwt.jwks_ca)


def _service(loaded: LoadedConfig) -> Found:
    """Of the link ``http``, where there is one."""
    from iot_mqtt.auth.service import stripped

    http = loaded.config.auth.http
    yield from _read("auth.http.token_file", http.token_file, stripped)
    if "http" in _links(loaded):
        yield from _authorities("auth.http.ca", http.ca)


def _log(loaded: LoadedConfig) -> Found:
    path = loaded.config.log.file
    if path is not None and (text := _unwritable(Path(path))) is not None:
        yield "log.file", text


def _data_dir(loaded: LoadedConfig) -> Found:
    """It is made where it is not there, with all that is above it."""
    path = Path(loaded.config.node.data_dir)
    there = next(one for one in (path, *path.parents) if os.path.lexists(one))
    if not there.is_dir():
        yield "node.data_dir", f"{path}: {there} is no directory"
    elif not os.access(there, os.W_OK | os.X_OK):
        yield "node.data_dir", f"{path}: {there} is not writable"


def _unwritable(path: Path) -> str | None:
    if path.is_dir():
        return f"{path} is a directory"
    if path.exists():
        if not (path.is_file() or path.samefile(os.devnull)):
            return f"{path} is no plain file"
        return None if os.access(path, os.W_OK) else f"{path} is not writable"
    folder = path.parent
    if not folder.is_dir():
        return f"{path} cannot be made: there is no directory {folder}"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"{path} cannot be made: {folder} is not writable"


def _read(key: str, path: str | None, parse: Callable[[str, str], Any]) -> Found:
    if path is not None:
        try:
            WatchedFile(path, parse)
        except FileError as error:
            yield key, str(error)


def _authorities(key: str, path: str | None) -> Found:
    # Late, as above.
    from iot_mqtt.auth.web import trust

    if path is not None:
        try:
            trust(path)
        except FileError as error:
            yield key, str(error)


def _links(loaded: LoadedConfig) -> frozenset[str]:
    """Of all chains."""
    auth = loaded.config.auth
    chains = [(), *(listener.auth_chain for listener in loaded.config.enabled_listeners.values())]
    return frozenset(name for chain in chains for name in names_of(auth, chain))
