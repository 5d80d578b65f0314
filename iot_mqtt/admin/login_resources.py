"""The resources of a browser's page: logging in and out, who one is, and one's password."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from iot_mqtt.admin.admins import LONGEST_PASSWORD, SHORTEST_PASSWORD, Admin, AdminDesk
from iot_mqtt.admin.auditing import Auditor
from iot_mqtt.admin.call import Call
from iot_mqtt.admin.callers import Caller
from iot_mqtt.admin.desks import checked
from iot_mqtt.admin.errors import ApiError, bad_request, unauthorized
from iot_mqtt.admin.logins import Logins
from iot_mqtt.admin.routes import Answered, Resource, own, unknown
from iot_mqtt.admin.schemas import Json, Schemas, body_of, schema_of
from iot_mqtt.admin.sign_in import SignIn
from iot_mqtt.errors import Unavailable

_SOME: Json = {"type": "string", "minLength": 1}
_NEW: Json = {"type": "string", "minLength": SHORTEST_PASSWORD, "maxLength": LONGEST_PASSWORD}


@dataclass(frozen=True, slots=True)
class Me:
    """Who calls."""

    name: str
    role: str
    #: Paths below ``/api/v1``; none: all.
    scope: tuple[str, ...]
    #: Nothing but ``me/password`` answers until it is another one.
    must_change: bool
    #: To be shown as ``X-CSRF-Token`` with what is no GET; "" for tokens, which need none.
    csrf: str


def me_of(caller: Caller) -> Me:
    return Me(caller.name, caller.role.word, caller.scope, caller.must_change, caller.csrf)


class Cookie:
    """The cookie of a login, whose name says whether it came over TLS: a page in plain text cannot plant that one."""

    def __init__(self, *, secure: bool) -> None:
        self._secure = secure
        #: ``__Host-``: browsers take it with Secure, with this path and without a domain only.
        self.name = "__Host-iot_mqtt_login" if secure else "iot_mqtt_login"

    def set(self, secret: str) -> dict[str, str]:
        """The header that gives it."""
        return {"Set-Cookie": self._line(secret)}

    def clear(self) -> dict[str, str]:
        """The header that takes it away."""
        return {"Set-Cookie": f"{self._line('')}; Max-Age=0"}

    def _line(self, secret: str) -> str:
        return f"{self.name}={secret}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if self._secure else ''}"


class LoginResources(Resource):
    """For people with a name and a password."""

    def __init__(self, sign_in: SignIn, logins: Logins, desk: AdminDesk, auditor: Auditor, cookie: Cookie) -> None:
        self._sign_in = sign_in
        self._logins = logins
        self._desk = desk
        self._auditor = auditor
        self._cookie = cookie

    @unknown("login", "Log in: the answer has a cookie, and what to show besides it.", "Me", "Login")
    async def _login(self, call: Call) -> Answered:
        with call.json() as fields:
            name, password = fields.text("name"), fields.text("password")
        if not name or not password:
            raise bad_request("name and password must be given")
        # What cannot be written down is not done.
        await self._auditor.check()
        admin = await self._sign_in.admin(name, password, call.address)
        if call.caller is not None and call.caller.login:
            await self._logins.end(call.caller.login)
        answer = await self._let_in(admin, call)
        await self._auditor.note(admin.name, admin.role.word, call.address, "POST", "login", HTTPStatus.OK)
        return answer

    @own("POST", "logout", "Log out: the cookie is good for nothing on any node any more.", None)
    async def _logout(self, call: Call) -> Answered:
        if call.caller is not None and call.caller.login:
            await self._logins.end(call.caller.login)
        return Answered(None, headers=self._cookie.clear())

    @own("GET", "me", "Who calls, and what he may.", "Me")
    def _me(self, call: Call) -> Me:
        if call.caller is None:
            raise unauthorized()
        return me_of(call.caller)

    @own("POST", "me/password", "Set one's own password; all of one's logins end but this one.", "Me", "OwnPassword")
    async def _password(self, call: Call) -> Answered:
        caller = call.caller
        with call.json() as fields:
            before, after = fields.text("password"), fields.text("new_password")
        if not before or not after:
            raise bad_request("password and new_password must be given")
        if caller is None or not caller.login:
            raise bad_request("a token has no password")
        if before == after:
            raise bad_request("new_password must be another one")
        await self._sign_in.admin(caller.name, before, call.address)
        try:
            await checked(self._desk.change(caller.name, password=after, must_change=False))
        except KeyError as error:
            raise unauthorized() from error
        admin = self._desk.admin(caller.name)
        if admin is None:
            raise Unavailable("the password is set; log in with it")
        await self._logins.end(caller.login)
        return await self._let_in(admin, call)

    async def _let_in(self, admin: Admin, call: Call) -> Answered:
        login = await self._logins.make(admin, call.address)
        me = Me(admin.name, admin.role.word, (), admin.must_change, login.csrf)
        return Answered(me, headers=self._cookie.set(login.secret))

    def schemas(self) -> Schemas:
        return {
            "Me": schema_of(Me),
            "Login": body_of({"name": _SOME, "password": _SOME}, "name", "password"),
            "OwnPassword": body_of({"password": _SOME, "new_password": _NEW}, "password", "new_password"),
        }


def must_change(caller: Caller) -> ApiError:
    """Until then nothing else is answered."""
    detail = f"{caller.name} has to set another password first: POST /api/v1/me/password"
    return ApiError(HTTPStatus.FORBIDDEN, "password_change_required", detail)
