"""Opens the sender of spans if the settings ask for it. All other code uses this file, so OpenTelemetry need not be
installed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from bot.app.settings import Settings
from bot.core.errors import SettingsError
from bot.storage.approvals import ApprovalStore
from bot.tracing.lines import export_run
from tools.catalog import TOOLS

if TYPE_CHECKING:
    from bot.tracing.sending import SpanSender

MISSING = "sending traces needs OpenTelemetry: install the extra (.venv/bin/pip install '.[ops]'), or set TRACES=off"
GATES = {tool.name: tool.gate for tool in TOOLS}


@asynccontextmanager
async def open_sender_from_settings(
    settings: Settings, approvals: ApprovalStore, *, model: str = "", url: str = ""
) -> AsyncIterator[SpanSender]:
    """Open the sender, which works while the context is open. `model` and `url` are those of the endpoint, if all sent
    runs share it. Raises SettingsError if OpenTelemetry is not installed."""
    try:
        from bot.tracing.sending import build_exporter, open_span_sender
        from bot.tracing.spans import SpanBuilder, TracedEndpoint
    except ModuleNotFoundError as error:
        raise SettingsError(MISSING) from error
    spans = SpanBuilder(TracedEndpoint(model, url), settings.otel_service_name)
    export = partial(export_run, approvals=approvals, gates=GATES, content=settings.captures_content)
    headers = settings.otel_exporter_otlp_headers
    sink = build_exporter(
        settings.otel_exporter_otlp_endpoint,
        settings.otel_exporter_otlp_traces_endpoint,
        headers.get_secret_value() if headers else "",
    )
    async with open_span_sender(sink, spans, export) as sender:
        yield sender
