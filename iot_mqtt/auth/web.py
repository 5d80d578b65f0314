"""HTTP as links need it: one request, one small answer, and an end to waiting. Redirections are not followed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from iot_mqtt.auth.files import FileError, read_text
from iot_mqtt.ports.clock import Clock

#: Connections to one host that are kept for the next request.
KEPT = 8
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class WebError(Exception):
    """There was no answer that could be used, and why."""


class Unreachable(WebError):
    """There was no connection to ask by."""


class Web(Protocol):
    """Status and body. Raises ``WebError``, also when it takes longer than ``patience`` or is larger than ``most``.

    What is posted may come twice: it is posted once more where a connection that was kept ends before the answer.
    """

    async def get(self, url: str, patience: float, most: int) -> tuple[int, bytes]: ...

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], patience: float, most: int
    ) -> tuple[int, bytes]: ...


class AgentWeb:
    """Over Twisted's agent. ``ca``: a file of certificates that servers may be signed by; None: those of the system."""

    def __init__(self, reactor: Any, clock: Clock, ca: str | None = None) -> None:
        # Late: who has no such link need not load a second library for TLS.
        from twisted.web.client import Agent

        from iot_mqtt.auth.web_connections import Pool

        trusted = trust(ca)
        self._pool: Any = Pool(reactor, KEPT)
        self._agent: Any = Agent(reactor, trusted, pool=self._pool)
        #: Each of its requests has a connection of its own.
        self._anew: Any = Agent(reactor, trusted, pool=Pool(reactor, 0))
        self._clock = clock

    async def get(self, url: str, patience: float, most: int) -> tuple[int, bytes]:
        return await self._within(patience, lambda agent: agent.request(b"GET", url.encode()), most)

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], patience: float, most: int
    ) -> tuple[int, bytes]:
        from twisted.web.client import FileBodyProducer
        from twisted.web.http_headers import Headers

        sent = Headers({name: [value] for name, value in headers.items()})

        def ask(agent: Any) -> Deferred[Any]:
            asked: Deferred[Any] = agent.request(b"POST", url.encode(), sent, FileBodyProducer(BytesIO(body)))
            return asked

        return await self._within(patience, ask, most)

    def close(self) -> Deferred[None]:
        """Let go of connections that are kept."""
        closed: Deferred[None] = self._pool.closeCachedConnections()
        return closed

    async def _within(self, patience: float, ask: Callable[[Any], Deferred[Any]], most: int) -> tuple[int, bytes]:
        from twisted.internet.error import ConnectError, ConnectingCancelledError, DNSLookupError
        from twisted.web.client import RequestTransmissionFailed, ResponseFailed

        from iot_mqtt.auth.web_connections import HeadTooLarge, KeptClosed

        running: list[Deferred[Any]] = []
        late: list[bool] = []

        def give_up() -> None:
            late.append(True)
            running[-1].cancel()

        timer = self._clock.call_later(patience, give_up)
        try:
            running.append(ask(self._agent))
            try:
                response = await running[-1]
            except (RequestTransmissionFailed, ResponseFailed) as error:
                if late or not isinstance(error.reasons[0].value, KeptClosed):
                    raise
                # The agent itself asks again only where nothing was posted (RFC 9112, 9.5). All that is posted by this
                # is a question that changes nothing, or may come twice.
                running.append(ask(self._anew))
                response = await running[-1]
            body = _Gathering(most)
            running.append(body.gathered)
            response.deliverBody(body)
            return int(response.code), await body.gathered
        except WebError:
            raise
        except (RequestTransmissionFailed, ResponseFailed) as error:
            cause = error.reasons[0].value
            words = str(cause) if isinstance(cause, HeadTooLarge) else repr(cause)
            raise WebError(_late(late, patience) or words) from error
        except (ConnectError, ConnectingCancelledError, DNSLookupError) as error:
            raise Unreachable(_late(late, patience) or str(error)) from error
        except Exception as error:
            raise WebError(_late(late, patience) or str(error) or type(error).__name__) from error
        finally:
            if not late:
                timer.cancel()


def _late(late: list[bool], patience: float) -> str | None:
    return f"no answer within {patience:g} s" if late else None


class _Gathering(TwistedProtocol):
    """Takes a body in, up to a size."""

    def __init__(self, most: int) -> None:
        self.gathered: Deferred[bytes] = Deferred(lambda _: self._hang_up())
        self._most = most
        self._data = bytearray()

    def dataReceived(self, data: bytes) -> None:
        if self.gathered.called:
            return
        self._data += data
        if len(self._data) > self._most:
            self._hang_up()
            self._end(WebError(f"the answer has more than {self._most} bytes"))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        from twisted.web.client import ResponseDone
        from twisted.web.http import PotentialDataLoss

        if reason.check(ResponseDone, PotentialDataLoss):
            self._end(None)
        else:
            self._end(WebError("the answer was cut short"))

    def _hang_up(self) -> None:
        transport: Any = self.transport
        if transport is not None:
            transport.stopProducing()

    def _end(self, error: WebError | None) -> None:
        if self.gathered.called:
            return
        if error is None:
            self.gathered.callback(bytes(self._data))
        else:
            self.gathered.errback(error)


def trust(ca: str | None) -> Any:
    """Who is believed; ``FileError``: the file has nobody in it."""
    from twisted.internet.ssl import Certificate, trustRootFromCertificates
    from twisted.web.client import BrowserLikePolicyForHTTPS

    if ca is None:
        return BrowserLikePolicyForHTTPS()
    found = _PEM.findall(read_text(ca))
    try:
        roots = trustRootFromCertificates([Certificate.loadPEM(one) for one in found])
    except Exception as error:
        raise FileError(ca, None, f"holds a certificate that cannot be used: {error}") from error
    if not found:
        raise FileError(ca, None, "holds no certificate in PEM")
    return BrowserLikePolicyForHTTPS(trustRoot=roots)
