"""Spans of runs that have ended, sent by OTLP in the background. No turn waits for them or fails with them: while the
endpoint is away they are dropped and counted, which is said once. Needs the extra `ops`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.util.re import parse_env_headers

from bot import logs
from bot.cancel import cancelled
from bot.records import Run
from bot.tracing.lines import Line, cleaned
from bot.tracing.spans import Spans

QUEUED = 1_000
"""Runs that wait to be sent; further ones are dropped."""
LAST_S = 3.0
"""How long the end of the process waits for what is queued."""

log = logs.get(__name__)
Reader = Callable[[Run], Awaitable[Line]]
"""A run with how its cards were answered."""


@dataclass(slots=True)
class Sending:
    """Takes runs and sends them; counts in runs."""

    spans: Spans
    exporter: SpanExporter
    read: Reader
    sent: int = 0
    dropped: int = 0
    _well: bool = True
    _queue: asyncio.Queue[Run] = field(default_factory=lambda: asyncio.Queue(QUEUED))

    def ended(self, run: Run) -> None:
        """A run to be sent when there is time. Never waits, never raises."""
        try:
            self._queue.put_nowait(run)
        except asyncio.QueueFull:
            self._drop("the queue is full")

    async def work(self) -> None:
        """Sends what comes, for ever."""
        while True:
            run = await self._queue.get()
            try:
                await self._sent(await self.read(run))
            except asyncio.CancelledError:
                self.dropped += 1
                raise
            except Exception as error:
                # Nothing that goes wrong with a trace is anybody's concern but the log's.
                log.debug("a trace could not be sent", exc_info=True)
                self._drop(type(error).__name__)
            finally:
                self._queue.task_done()

    async def send(self, line: Line) -> bool:
        """One run, now; False if the endpoint did not take it."""
        spans = self.spans.of(cleaned(line))
        taken = await asyncio.to_thread(self.exporter.export, spans) is SpanExportResult.SUCCESS
        self.sent += taken
        return taken

    async def _sent(self, line: Line) -> None:
        if not await self.send(line):
            self._drop("the endpoint did not take them")
            return
        if not self._well:
            log.info("traces are sent again", dropped=self.dropped)
        self._well = True

    def _drop(self, why: str) -> None:
        self.dropped += 1
        if self._well:
            log.warning("traces are dropped until they can be sent", why=why)
        self._well = False

    async def flushed(self) -> None:
        """What is queued is sent, as far as there is time for it."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._queue.join(), LAST_S)

    @property
    def lost(self) -> int:
        """All that was not sent, once nobody sends any more."""
        return self.dropped + self._queue.qsize()


@asynccontextmanager
async def sending(exporter: OTLPSpanExporter, spans: Spans, read: Reader) -> AsyncIterator[Sending]:
    """At work as long as the context is open."""
    one = Sending(spans, exporter, read)
    working = asyncio.create_task(one.work(), name="traces")
    try:
        yield one
        await one.flushed()
    finally:
        one.exporter.shutdown()  # ends a retry that is waited for
        await cancelled([working])
        if one.lost:
            log.warning("traces were dropped", dropped=one.lost, sent=one.sent)


def exporter(base: str, whole: str, headers: str) -> OTLPSpanExporter:
    """OTLP over HTTP to the endpoint `whole`, or below `base`; both empty: to the exporter's default. What else
    OTEL_EXPORTER_OTLP_* can say is read from the environment by the exporter itself: certificates, compression,
    time-outs."""
    return OTLPSpanExporter(
        endpoint=whole or (f"{base.rstrip('/')}/v1/traces" if base else None),
        headers=parse_env_headers(headers, liberal=True) if headers else None,
    )
