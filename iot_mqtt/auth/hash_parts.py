"""What texts of hashes made elsewhere have in common: salt and hash are base64, and iterations are bounded."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

LONGEST_SALT: Final = 128
#: A second and a half.
_DEAREST: Final = 2_000_000


def salt_and_digest(match: re.Match[str]) -> tuple[bytes, bytes]:
    """Those of a text, by the names of its groups; ``ValueError``: they are none."""
    try:
        return base64.b64decode(match["salt"], validate=True), base64.b64decode(match["digest"], validate=True)
    except binascii.Error:
        raise ValueError("has a salt or a hash that is no base64") from None


def check_iterations(count: int) -> None:
    """Raise ``ValueError`` if a login would cost too much."""
    if count > _DEAREST:
        raise ValueError(f"asks for {count} iterations; a login may cost {_DEAREST}")
