"""The sender of spans by setting: all that others need of it, without what it needs being installed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from bot.errors import SettingsWrong
from bot.settings import Settings
from bot.store.approvals import Approvals
from bot.tracing.lines import line_of
from tools.catalog import TOOLS

if TYPE_CHECKING:
    from bot.tracing.sending import Sending

MISSING = "sending traces needs OpenTelemetry: install the extra (.venv/bin/pip install '.[ops]'), or set TRACES=off"
GATES = {tool.name: tool.gate for tool in TOOLS}


@asynccontextmanager
async def sender_of(
    settings: Settings, approvals: Approvals, *, model: str = "", url: str = ""
) -> AsyncIterator[Sending]:
    """At work as long as the context is open. `model`, `url`: of the endpoint, if they are those of every run that is
    sent. Raises SettingsWrong if OpenTelemetry is not installed."""
    try:
        from bot.tracing.sending import exporter, sending
        from bot.tracing.spans import Endpoint, Spans
    except ModuleNotFoundError as error:
        raise SettingsWrong(MISSING) from error
    spans = Spans(Endpoint(model, url), settings.otel_service_name)
    read = partial(line_of, approvals=approvals, gates=GATES, content=settings.traces_content)
    headers = settings.otel_exporter_otlp_headers
    sink = exporter(
        settings.otel_exporter_otlp_endpoint,
        settings.otel_exporter_otlp_traces_endpoint,
        headers.get_secret_value() if headers else "",
    )
    async with sending(sink, spans, read) as sender:
        yield sender
