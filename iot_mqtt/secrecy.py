"""What is a secret wherever it stands: by the name of its key, or because it looks like one.

For everything that prints configuration: ``show``, ``explain``, errors, the API, the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

MASK = "******"

#: Where a word of a name begins, as in ``tls_psk`` and ``tlsPsk``, and where the last one ends.
_BEGIN = r"(?:(?<![a-z0-9])|(?-i:(?<=[a-z0-9])(?=[A-Z])))"
_END = r"(?=\d*$)"
#: Kinds of keys that are secrets. ``tls.key`` is none, nor is ``tls.client_key``: they are paths.
_KEYS = (
    r"api|access|account|aes|app|apps|app_?s|auth|cipher|decryption|encryption|hmac|license|master|nwk|nwk_?s|root"
    r"|session|shared|sign|signing"
)
#: Words that are the whole name, or the last of it: a ``pin`` is a secret, ``pins`` and a ``pin_mode`` are none.
_WORDS = (
    r"psks?|pins?[._-]?codes?|pin|puk|otp|pwd|creds?|cookies?|bearer|dsn|sas|community"
    r"|(?:(?:admin|db|ftp|http|key|mqtt|root|smtp|ssh|store|user)[._-]?|(?<![^.]))pass|basic[._-]?auth"
    r"|conn(?:ection)?[._-]?str(?:ing)?"
)
#: Parts of the names of keys.
NAMES = (
    r"passw|passphrase|passcode|secret|token|credential|private|jaas|authorization|oauthbearer[._-]?config"
    r"|key[._-]?pem|keystore[._-]?key|access[._-]?signature|(?:api|access|shared|encryption)[._-]?key"
    rf"|{_BEGIN}psk[._-]?(?:hex|key|value)|{_BEGIN}(?:{_WORDS}|(?:{_KEYS})[._-]?key){_END}"
)
_NAME = re.compile(NAMES, re.IGNORECASE)
#: A private key in PEM, whole or cut off, and user and password in an address.
_LOOKS = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_USERINFO = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^/\s@:]*:[^/\s@]*@", re.IGNORECASE)
#: Shorter ones are not looked for in sentences: they would be found in other words.
_SHORTEST = 4


def is_secret(name: str) -> bool:
    """Whether a value under this name is masked wherever it is printed."""
    return _NAME.search(name) is not None


def masked(name: str, value: object) -> object:
    """The value as it may be printed: secrets hidden, in nested mappings and lists, too."""
    if is_secret(name):
        # That there is none, or whether something is on, is no secret.
        return value if value is None or value == "" or isinstance(value, bool) else MASK
    if isinstance(value, Mapping):
        return {inner: masked(str(inner), item) for inner, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(name, item) for item in value]
    return masked_text(value) if isinstance(value, str) else value


def masked_key(key: str, value: object) -> object:
    """The same under a key of the configuration, such as ``auth.jwt.secret``: its last word names the value."""
    return masked(key.rpartition(".")[2], value)


def masked_text(text: str) -> str:
    """A text without what looks like a secret in it."""
    return _USERINFO.sub(rf"\g<scheme>{MASK}@", _LOOKS.sub(MASK, text))


def secrets_in(name: str, value: object) -> Iterator[str]:
    """The texts that ``masked`` hides by their names."""
    if isinstance(value, Mapping):
        for inner, item in value.items():
            yield from secrets_in(name if is_secret(name) else str(inner), item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from secrets_in(name, item)
    elif is_secret(name) and value is not None and not isinstance(value, bool):
        yield str(value)


def without(text: str, secrets: Iterable[str]) -> str:
    """A sentence in which none of the secrets stands, as it is or escaped."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, MASK).replace(repr(secret)[1:-1], MASK)
    return masked_text(text)
