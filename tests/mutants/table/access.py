"""Faults in who a client is: names, identities, lists of revoked certificates."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation

ACCESS: Final = (
    Mutation(
        "access.prospect-of-a-stranger",
        "iot_mqtt/broker/connections/prospects.py",
        "return None if self._owners.yields(client_id, who.identity) else _NOT_ITS_SESSION",
        "return None",
        ("tests/unit/broker/test_prospects.py",),
        "an operator is told that a client comes in who asks for the session of another user",
    ),
    Mutation(
        "access.passed-on-is-wrong",
        "iot_mqtt/auth/hashing.py",
        "if verdict is not False or not question.decides:",
        "if verdict is not False:",
        ("tests/unit/auth/test_guesses.py",),
        "devices whom a later link lets in use up the guesses of their address",
    ),
    Mutation(
        "access.passed-on-is-free",
        "iot_mqtt/auth/chain.py",
        "        if uncounted:\n            self._guessed_wrong(source_of(attempt.peer))\n        return NOBODY",
        "        return NOBODY",
        ("tests/unit/auth/test_guesses.py",),
        "guesses at names that nobody has cost a hash each, and never end",
    ),
    Mutation(
        "access.any-client-id",
        "iot_mqtt/auth/vouched.py",
        "if owner and not self._accounts.may_be(owner, attempt.client_id):",
        'if by in ("file", "grid") and not self._accounts.may_be(owner, attempt.client_id):',
        ("tests/unit/auth/test_grid_users.py",),
        "a token or a certificate of a user lets in any client id",
    ),
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
    Mutation(
        "access.token-is-guess",
        "iot_mqtt/auth/links/tokens.py",
        "return Denied(ReasonCode.NOT_AUTHORIZED, str(error))",
        "return Denied(ReasonCode.BAD_USER_NAME_OR_PASSWORD, str(error))",
        ("tests/unit/auth/test_tokens.py",),
        "a device whose token has ended is banned, and its next token is refused",
    ),
    Mutation(
        "access.answer-without-end",
        "iot_mqtt/auth/web_connections.py",
        'wanted."""\n        self.abortConnection()',
        'wanted."""\n        self.loseConnection()',
        ("tests/unit/auth/test_web.py",),
        "a service that answers over https without an end keeps its connection",
    ),
    Mutation(
        "access.gone-wait",
        "iot_mqtt/broker/connections/connection.py",
        "if self.ctx is not None and (self.stash or not self.connecting):",
        "if self.ctx is not None:",
        ("tests/unit/broker/test_gone_logins.py",),
        "clients that have hung up are asked for, in front of those who wait",
    ),
    Mutation(
        "access.any-list",
        "iot_mqtt/pipeline/revocation_lists.py",
        "if not any(_signed(authority, one) for authority in named):",
        "if not named:",
        ("tests/unit/pipeline/test_revocation_lists.py",),
        "a list that OpenSSL cannot verify takes the place of a good one, and locks all clients out",
    ),
    Mutation(
        "access.list-said-late",
        "iot_mqtt/pipeline/revocation_lists.py",
        "if (self.ends - now) * _LATE < self.ends - self.begins:",
        "if self.ends < self.begins:",
        ("tests/unit/pipeline/test_revocation_lists.py",),
        "a list ends, and nobody was told before",
    ),
    Mutation(
        "access.look-from-before",
        "iot_mqtt/app/node/file_looks.py",
        "while self._answered < asked:",
        "if True:",
        ("tests/unit/app/node/test_file_looks.py",),
        "who reloads is told that it is done, and what was read is of before",
    ),
    Mutation(
        "access.file-for-nobody",
        "iot_mqtt/whole_files.py",
        "    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))\n",
        "",
        ("tests/unit/test_whole_files.py", "tests/unit/auth/test_passwd.py"),
        "a user whom root disables stays in: the node cannot read the file any more",
    ),
    Mutation(
        "access.aliases-without-end",
        "iot_mqtt/app/config/yaml_loader.py",
        "self._repeated += self._sizes.get(id(node), MOST_REPEATED + 1)",
        "self._repeated += 1",
        ("tests/unit/app/config/test_config_layers.py",),
        "a few hundred bytes of configuration keep a node busy for ever",
    ),
)
