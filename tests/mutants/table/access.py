"""Faults in who a client is: names, identities."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation

ACCESS: Final = (
    Mutation(
        "access.any-name",
        "iot_mqtt/auth/vouched.py",
        'if not principal.anonymous and not is_user_name(principal.username or ""):',
        "if not principal.anonymous and not principal.username:",
        ("tests/unit/auth/test_vouched_names.py",),
        "a certificate with a control character in its name is somebody's",
    ),
    Mutation(
        "access.name-is-identity",
        "iot_mqtt/ports/access.py",
        "if owner and (self.generation or _LIVES in owner) else owner",
        "if owner and self.generation else owner",
        ("tests/unit/ports/test_identity.py",),
        "a name with a NUL in it has the sessions of another user",
    ),
)
