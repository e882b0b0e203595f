"""Spans of runs that have ended, sent by OTLP in the background. No turn waits for them or fails with them: while the
endpoint is unreachable they are dropped and counted, and one warning is logged. Needs the extra `ops`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.util.re import parse_env_headers

from bot.core import logs
from bot.core.cancellation import cancel_and_wait
from bot.core.records import Run
from bot.tracing.lines import ExportedRun, redact_run
from bot.tracing.spans import SpanBuilder

QUEUED = 1_000
"""Most runs that wait to be sent; further ones are dropped."""
LAST_S = 3.0
"""Time for which the end of the process waits for queued runs (s)."""

log = logs.get_logger(__name__)
Reader = Callable[[Run], Awaitable[ExportedRun]]
"""Reads a run with the answers to its cards."""


@dataclass(slots=True, kw_only=True)
class SpanSender:
    """A sender that takes runs and sends them; it counts runs."""

    spans: SpanBuilder
    exporter: SpanExporter
    read: Reader
    sent: int = 0
    dropped: int = 0
    queue: asyncio.Queue[Run] = field(default_factory=lambda: asyncio.Queue(QUEUED))
    _well: bool = True

    def enqueue_run(self, run: Run) -> None:
        """Enqueue a run to be sent later. Never waits, never raises."""
        try:
            self.queue.put_nowait(run)
        except asyncio.QueueFull:
            self._count_dropped("the queue is full")

    async def send_forever(self) -> None:
        """Send queued runs for ever."""
        while True:
            run = await self.queue.get()
            try:
                if not await self.send_run(await self.read(run)):
                    self._count_dropped("the endpoint did not take them")
                elif not self._well:
                    log.info("traces are sent again", dropped=self.dropped)
                    self._well = True
            except asyncio.CancelledError:
                self.dropped += 1
                raise
            except Exception as error:
                # A problem with a trace concerns only the log.
                log.debug("a trace could not be sent", exc_info=True)
                self._count_dropped(type(error).__name__)
            finally:
                self.queue.task_done()

    async def send_run(self, line: ExportedRun) -> bool:
        """Send one run now; False if the endpoint did not accept it."""
        spans = self.spans.build_spans(redact_run(line))
        taken = await asyncio.to_thread(self.exporter.export, spans) is SpanExportResult.SUCCESS
        self.sent += taken
        return taken

    def _count_dropped(self, why: str) -> None:
        self.dropped += 1
        if self._well:
            log.warning("traces are dropped until they can be sent", why=why)
        self._well = False


@asynccontextmanager
async def open_span_sender(exporter: OTLPSpanExporter, spans: SpanBuilder, read: Reader) -> AsyncIterator[SpanSender]:
    """Open a sender, which works as long as the context is open."""
    one = SpanSender(spans=spans, exporter=exporter, read=read)
    working = asyncio.create_task(one.send_forever(), name="traces")
    try:
        yield one
        with suppress(TimeoutError):
            await asyncio.wait_for(one.queue.join(), LAST_S)
    finally:
        one.exporter.shutdown()  # ends a retry that is in progress
        await cancel_and_wait([working])
        if lost := one.dropped + one.queue.qsize():
            log.warning("traces were dropped", dropped=lost, sent=one.sent)


def build_exporter(base: str, whole: str, headers: str) -> OTLPSpanExporter:
    """Build an exporter of OTLP over HTTP to the endpoint `whole`, or below `base`; if both are empty, to the
    exporter's default. The exporter itself reads further OTEL_EXPORTER_OTLP_* variables from the environment:
    certificates, compression, time-outs."""
    return OTLPSpanExporter(
        endpoint=whole or (f"{base.rstrip('/')}/v1/traces" if base else None),
        headers=parse_env_headers(headers, liberal=True) if headers else None,
    )
