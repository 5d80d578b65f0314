"""Which of mosquitto's listeners are opened here, and whom each of them lets in.

::

    allow_anonymous true         auth_chain: [anonymous]
    password_file, …      ─▶     auth_chain: [file]
    use_identity_as_username     auth_chain: [certificate]
    psk_hint, mount_point, …     left out, with the reason

With ``per_listener_settings`` mosquitto has users and rules for each listener. Here there is one file of users, one set
of rules for users, and one for anonymous clients, whichever listener they come to. So the first listener that lets in
clients of a kind says what the files of that kind are. Another one with other files is left out: its clients would have
the rights of the first one's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: What is one for all listeners.
PASSWORDS = "password_file"
OF_USERS = "acl_file of users"
OF_STRANGERS = "acl_file of anonymous clients"


@dataclass
class Access:
    """Who is let in, and what he may: of all listeners, or with ``per_listener_settings`` of one."""

    #: None: it is not written.
    anonymous: bool | None = None
    password_file: str | None = None
    acl_file: str | None = None
    #: Why nobody can be let in as mosquitto does it.
    barred: list[str] = field(default_factory=list)


@dataclass(eq=False)
class Listener:
    """One port, with what is written below it."""

    where: str
    port: int
    host: str
    websockets: bool = False
    #: The user is the common name of the client certificate.
    identity: bool = False
    #: The user is the whole subject.
    subject: bool = False
    keys: dict[str, Any] = field(default_factory=dict)
    access: Access = field(default_factory=Access)
    #: Why it cannot be opened as mosquitto opens it.
    barred: list[str] = field(default_factory=list)

    @property
    def secure(self) -> bool:
        return "tls.cert" in self.keys

    def links(self, access: Access) -> tuple[str, ...]:
        """Those that are asked who a client is."""
        if self.identity:
            return ("certificate",)
        asked = {"file": access.password_file is not None, "anonymous": bool(access.anonymous)}
        return tuple(name for name, there in asked.items() if there)

    def obstacle(self, access: Access) -> str | None:
        """Why it is not opened, or None."""
        if self.barred or access.barred:
            return "; ".join((*self.barred, *access.barred))
        if not self.secure and (spare := [key for key, value in self.keys.items() if key.startswith("tls.") and value]):
            return f"it has {', '.join(spare)} and no certfile, so that mosquitto speaks plain text there"
        if self.identity and not (self.secure and self.keys.get("tls.require_client_certificate")):
            return "use_identity_as_username is nothing without certfile and require_certificate"
        if self.identity and self.websockets:
            return "use_identity_as_username is nothing with websockets: mosquitto asks for passwords there"
        if self.subject and not self.identity:
            return "use_subject_as_username: auth.certificate.field is one name of the certificate"
        if not self.links(access):
            return "nobody is let in there, without allow_anonymous, password_file or use_identity_as_username"
        return None


@dataclass
class Doors:
    """Listeners that can be open together; the first ones come first."""

    #: By ``PASSWORDS``, ``OF_USERS`` and ``OF_STRANGERS``: the file, None for no file; nothing where nobody needs one.
    files: dict[str, str | None] = field(default_factory=dict)
    opened: list[tuple[Listener, tuple[str, ...]]] = field(default_factory=list)

    def open(self, listener: Listener, access: Access) -> str | None:
        """Why a listener is left out; None: it is open."""
        if (obstacle := listener.obstacle(access)) is not None:
            return obstacle
        links = listener.links(access)
        needed: dict[str, str | None] = {}
        if "file" in links:
            needed[PASSWORDS] = access.password_file
        if links != ("anonymous",):
            needed[OF_USERS] = access.acl_file
        if "anonymous" in links:
            needed[OF_STRANGERS] = access.acl_file
        others = [name for name, path in needed.items() if self.files.get(name, path) != path]
        if others:
            return f"another listener has another {' and '.join(others)}, and here these are one for all listeners"
        self.files.update(needed)
        self.opened.append((listener, links))
        return None

    @property
    def anonymous(self) -> bool:
        """Whether every listener lets in clients without a user, as one does that is opened later."""
        return bool(self.opened) and all("anonymous" in links for _, links in self.opened)
