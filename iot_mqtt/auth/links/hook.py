"""The link ``http``: a service of the plant's is asked who a client is, and what it says is believed.

::

    POST  {"client_id", "username", "password", "address", "listener", "version", "certificate_name", "certificate"}
    200   {"result": "allow" | "deny" | "ignore", "user", "groups", "rules", "expires_in"}

Everything but ``result`` may be absent. Whatever else comes, or nothing, lets nobody in (0x88: come back). So many
questions are asked at once and no more; behind them addresses take turns, and the names of one address take turns. Who
hangs up waits no more, but his question goes on if it is on its way: the service works at it all the same. An answer is
remembered for a few seconds, and a no counts for its address as a wrong password does.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from twisted.internet.defer import Deferred, ensureDeferred

from iot_mqtt.auth.accounts import Accounts
from iot_mqtt.auth.fair_queue import FairQueue
from iot_mqtt.auth.links.certificate import DISABLED
from iot_mqtt.auth.links.passwords import WRONG
from iot_mqtt.auth.outages import Outage
from iot_mqtt.auth.settings import HttpSettings
from iot_mqtt.auth.web import Unreachable, Web, WebError
from iot_mqtt.errors import ReasonCode, Refused, Unavailable
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal
from iot_mqtt.ports.addresses import address_of, source_of
from iot_mqtt.ports.clock import Clock

#: Bytes of an answer; names in it, and characters of one.
LARGEST: Final = 256 * 1024
MOST_NAMES: Final = 1000
LONGEST_NAME: Final = 1024
_RESULTS: Final = ("allow", "deny", "ignore")


class Guesses(Protocol):
    """Counts wrong passwords by address."""

    def may_guess(self, source: str) -> bool: ...

    def guessed_wrong(self, source: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What the service said."""

    result: str
    user: str | None = None
    groups: frozenset[str] = frozenset()
    rules: tuple[str, ...] = ()
    #: Seconds since 1970.
    expires_at: float | None = None


class Gate:
    """Lets ``at_once`` pass and ``queue`` wait, fair by address and name."""

    def __init__(self, at_once: int, queue: int, clock: Clock) -> None:
        self._free = at_once
        self._clock = clock
        self._queue: FairQueue[int] = FairQueue(queue)
        self._waiting: dict[int, Deferred[None]] = {}
        self._number = 0

    async def enter(self, source: str, name: str) -> None:
        """Return when it is this one's turn; whoever is cancelled has none. Raises ``Refused`` where too many wait."""
        if self._free > 0:
            self._free -= 1
            return
        number = self._number = self._number + 1

        def withdraw(_: object) -> None:
            del self._waiting[number]
            self._queue.withdraw(number, source, name)

        waiting = self._waiting[number] = Deferred(withdraw)
        for gone, _ in self._queue.put(number, source, name, self._clock.monotonic()):
            self._waiting.pop(gone).errback(Refused("too many clients wait to be asked for", ReasonCode.SERVER_BUSY))
        await waiting

    def leave(self) -> None:
        """The next one may pass."""
        taken = self._queue.take(self._clock.monotonic())
        if taken is None:
            self._free += 1
        else:
            self._waiting.pop(taken[0]).callback(None)


class HookLink:
    """Decides as the service says; ``ignore`` leaves it to the next link."""

    name = "http"
    counts = True

    def __init__(
        self,
        settings: HttpSettings,
        web: Web,
        accounts: Accounts,
        guesses: Guesses,
        clock: Clock,
        outage: Outage,
        token: Callable[[], str | None] = lambda: None,
    ) -> None:
        """``outage`` is told what becomes of questions; ``token`` says what is shown to the service now."""
        self._settings = settings
        self._web = web
        self._accounts = accounts
        self._guesses = guesses
        self._clock = clock
        self._outage = outage
        self._token = token
        self._gate = Gate(settings.at_once, settings.queue, clock)
        self._key = secrets.token_bytes(32)
        #: Digest of a question → when it is forgotten, and the answer; oldest first.
        self._known: OrderedDict[bytes, tuple[float, Answer]] = OrderedDict()

    async def consider(self, attempt: ConnectAttempt) -> Principal | Denied | None:
        question = json.dumps(_question(attempt), sort_keys=True).encode()
        digest = hashlib.blake2b(question, key=self._key, digest_size=32).digest()
        known = self._known.get(digest)
        if known is not None and known[0] > self._clock.monotonic():
            return self._verdict(known[1], attempt)
        source = source_of(attempt.peer)
        if not self._guesses.may_guess(source):
            return Denied(ReasonCode.SERVER_BUSY, "too many wrong passwords came from this address")
        try:
            await self._gate.enter(source, attempt.username or "")
        except Refused as error:
            return Denied(error.reason, error.detail)
        answered: Deferred[Answer] = Deferred()
        # Not awaited itself: who is cancelled waits no more, and the question goes on.
        ensureDeferred(self._answer(question, digest, source)).chainDeferred(answered)
        return self._verdict(await answered, attempt)

    def known(self, attempt: ConnectAttempt) -> str:
        last = self._outage.last
        return "the service is asked" if last is None else f"the service did not answer the last question: {last}"

    async def _answer(self, question: bytes, digest: bytes, source: str) -> Answer:
        """What the service says, once the gate let the question in."""
        try:
            answer = await self._ask(question, source)
        finally:
            self._gate.leave()
        self._remember(digest, answer)
        if answer.result == "deny":
            self._guesses.guessed_wrong(source)
        return answer

    async def _ask(self, question: bytes, source: str) -> Answer:
        settings = self._settings
        assert settings.url is not None
        token = self._token()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        try:
            status, body = await self._web.post(settings.url, question, headers, settings.timeout, LARGEST)
            if status != 200:
                raise WebError(f"the answer was {status}")
            answer = read_answer(body, self._clock.wall())
        except (WebError, ValueError) as error:
            self._outage.failed(None if isinstance(error, Unreachable) else source, str(error))
            raise Unavailable("who this client is cannot be asked now") from error
        self._outage.answered(source)
        return answer

    def _verdict(self, answer: Answer, attempt: ConnectAttempt) -> Principal | Denied | None:
        if answer.result == "ignore":
            return None
        if answer.result == "deny":
            return WRONG
        user = answer.user or attempt.username or None
        if user is not None and self._accounts.is_disabled(user):
            return DISABLED
        return Principal(
            attempt.client_id,
            user,
            anonymous=user is None,
            groups=answer.groups,
            brought_rules=answer.rules,
            expires_at=answer.expires_at,
        )

    def _remember(self, digest: bytes, answer: Answer) -> None:
        if self._settings.cache_seconds <= 0:
            return
        now = self._clock.monotonic()
        seconds = self._settings.cache_seconds
        if answer.expires_at is not None:
            seconds = min(seconds, answer.expires_at - self._clock.wall())
        self._known.pop(digest, None)
        self._known[digest] = now + seconds, answer
        while len(self._known) > self._settings.cache_size or next(iter(self._known.values()))[0] <= now:
            self._known.popitem(last=False)
            if not self._known:
                break


def read_answer(body: bytes, now: float) -> Answer:
    """What the service said; ``ValueError`` if it said nothing that is understood."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError("the answer is no JSON") from error
    if not isinstance(fields, dict) or fields.get("result") not in _RESULTS:
        raise ValueError("the answer has no result: allow, deny or ignore")
    user, seconds = fields.get("user"), fields.get("expires_in")
    if user is not None and (not isinstance(user, str) or not 1 <= len(user) <= LONGEST_NAME or not user.isprintable()):
        raise ValueError("the answer's user is no name")
    if seconds is not None and (
        isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 1e9
    ):
        raise ValueError("the answer's expires_in are no seconds")
    groups, rules = (_texts(fields, name) for name in ("groups", "rules"))
    return Answer(fields["result"], user, frozenset(groups), tuple(rules), None if seconds is None else now + seconds)


def _texts(fields: Mapping[str, Any], name: str) -> list[str]:
    value = fields.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > MOST_NAMES:
        raise ValueError(f"the answer's {name} are no list of at most {MOST_NAMES}")
    if not all(isinstance(one, str) and 1 <= len(one) <= LONGEST_NAME and one.isprintable() for one in value):
        raise ValueError(f"the answer's {name} hold something that is no text")
    return value


def _question(attempt: ConnectAttempt) -> dict[str, object]:
    address = address_of(attempt.peer)
    question: dict[str, object] = {
        "client_id": attempt.client_id,
        "username": attempt.username,
        "address": None if address is None else str(address),
        "listener": attempt.listener,
        "version": attempt.version,
        "certificate_name": attempt.certificate_name,
        "certificate": {kind: list(values) for kind, values in attempt.certificate.items()},
    }
    if attempt.password is not None:
        try:
            question["password"] = attempt.password.decode()
        except UnicodeDecodeError:
            question["password_base64"] = base64.b64encode(attempt.password).decode()
    return question
