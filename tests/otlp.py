"""A collector of OpenTelemetry, as far as tests need one: it reads OTLP's JSON as the official messages."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

#: In OTLP's JSON these are hexadecimal; in that of protobuf, base64.
_IDS = frozenset({"traceId", "spanId", "parentSpanId"})


def request_of(body: bytes) -> ExportTraceServiceRequest:
    """What was posted; an error where a field is none of OTLP's."""
    request = ExportTraceServiceRequest()
    ParseDict(json.loads(body, object_hook=_ids), request)
    return request


def spans_of(request: ExportTraceServiceRequest) -> list[Span]:
    """All spans of a request."""
    return [span for told in request.resource_spans for scope in told.scope_spans for span in scope.spans]


def attributes_of(told: Any) -> dict[str, str | int | bool]:
    """Of a span or a resource."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in told.attributes}


class Collector(ThreadingHTTPServer):
    """For nodes that are processes: takes whatever is posted."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Span] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/traces"

    def named(self, name: str) -> list[Span]:
        """The spans of this name that came so far."""
        return [span for span in list(self.spans) if span.name == name]


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector, in a thread of its own."""
    with Collector() as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        try:
            yield collector
        finally:
            collector.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.server.spans += spans_of(request_of(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None: ...


def _ids(told: dict[str, Any]) -> dict[str, Any]:
    return {key: b64encode(bytes.fromhex(value)).decode() if key in _IDS else value for key, value in told.items()}
