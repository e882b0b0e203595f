"""A collector on loopback: takes OTLP over HTTP as a real one does, and shows what has come."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.harness.workspace_server import serve_routes


@dataclass(frozen=True)
class Got:
    """One span as it came."""

    name: str
    trace: str
    id: str
    parent: str
    began_ns: int
    ended_ns: int
    kind: int
    failed: bool
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]

    @property
    def ms(self) -> float:
        return (self.ended_ns - self.began_ns) / 1e6


@dataclass
class Receiver:
    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    status: int = 200
    taking: asyncio.Event = field(default_factory=asyncio.Event)
    """While this is not set, it answers nothing."""

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        await self.taking.wait()
        if self.status == 200:
            self.bodies.append(body)
            self.headers.append(dict(request.headers))
        return web.Response(status=self.status, content_type="application/x-protobuf")

    @property
    def spans(self) -> list[Got]:
        return [span for body in self.bodies for span in _spans(body)]

    def named(self, beginning: str) -> list[Got]:
        return [span for span in self.spans if span.name.startswith(beginning)]

    async def until(self, count: int) -> list[Got]:
        """Waits for so many runs."""
        async with asyncio.timeout(20):
            while len(self.bodies) < count:
                await asyncio.sleep(0.02)
        return self.spans


def _spans(body: bytes) -> list[Got]:
    return [
        Got(one.name, one.trace_id.hex(), one.span_id.hex(), one.parent_span_id.hex(),
            one.start_time_unix_nano, one.end_time_unix_nano, one.kind, one.status.code == Status.STATUS_CODE_ERROR,
            _plain(one.attributes), _plain(resource.resource.attributes))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for one in scope.spans
    ]  # fmt: skip


def _plain(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    one = Receiver()
    one.taking.set()
    async with serve_routes([web.post("/v1/traces", one.take)]) as one.url:
        try:
            yield one
        finally:
            one.taking.set()
