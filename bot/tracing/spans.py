"""A run as OpenTelemetry spans, by the semantic conventions for generative AI (names as of 1.41, status *development*):
`invoke_agent` → `chat {model}` and `execute_tool {tool}`, and in the latter `approval` while a person was waited for.

The ids are derived from the run: in whichever process it continued, and however often it is sent, it is one trace.
Besides `bot.tracing.sending`, this is the only module that needs the extra `ops`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

from bot.tracing.lines import ExportedRun, ExportedStep

AGENT = "countersign"
PROVIDER = "openai"
"""The provider of the API by which the model is reached; `server.address` tells the provider of the model."""
_NS = 1_000_000
Attributes = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class TracedEndpoint:
    """A trace's data about the model besides those of the run."""

    model: str = ""
    """The requested name; empty if not known."""
    url: str = ""

    @property
    def attributes(self) -> Attributes:
        parts = urlsplit(self.url)
        if not parts.hostname:
            return {}
        return {"server.address": parts.hostname, "server.port": parts.port or (80 if parts.scheme == "http" else 443)}


@dataclass(slots=True)
class _FixedIdGenerator(IdGenerator):
    """A generator that returns the ids set in it."""

    trace: int = 0
    span: int = 0

    def generate_span_id(self) -> int:
        return self.span

    def generate_trace_id(self) -> int:
        return self.trace


@dataclass(slots=True)
class _SpanCollector(SpanProcessor):
    spans: list[ReadableSpan] = field(default_factory=list)

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


class SpanBuilder:
    """A builder of spans from runs, one run after another."""

    def __init__(self, endpoint: TracedEndpoint, service: str) -> None:
        """Build a builder. `service` becomes `service.name`; OTEL_RESOURCE_ATTRIBUTES adds to it."""
        self._endpoint, self._ids, self._made = endpoint, _FixedIdGenerator(), _SpanCollector()
        resource = Resource.create({"service.name": service})
        provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        provider.add_span_processor(self._made)
        self._tracer = provider.get_tracer(AGENT)

    def build_spans(self, line: ExportedRun) -> list[ReadableSpan]:
        """Build all spans of a run, inner spans first."""
        self._ids.trace = _derive_trace_id(line.run, "trace", 16)
        replied = [one.at_ms + one.ms for one in line.replies]
        called = [one.began_ms + (one.ms or 0) for one in line.steps if one.began_ms]
        ends = line.ended_ms or max([line.started_ms, *replied, *called])  # the last known time
        content = line.content
        answer = content.answer if content else ""
        more: Attributes = {
            "gen_ai.agent.name": AGENT,
            "user.id": line.person,
            "countersign.run": line.run,
            "countersign.style": line.style,
            "countersign.outcome": line.outcome,
            "countersign.cost": float(line.cost),
            "countersign.malformed": line.malformed,
            "countersign.repeated": line.repeated,
            "countersign.claimed": line.claimed,
            "countersign.supported": line.supported,
            **_build_usage_attributes(line.tokens_in, line.tokens_cached, line.tokens_out),
            **({"gen_ai.input.messages": _format_message("user", content.message)} if content else {}),
            **({"gen_ai.output.messages": _format_message("assistant", answer)} if answer else {}),
        }
        root = self._start_operation_span(line, "invoke_agent", AGENT, line.started_ms, None, SpanKind.INTERNAL, more)
        within = set_span_in_context(root, Context())
        model = self._endpoint.model or line.model
        for n, reply in enumerate(line.replies):
            more = {
                **self._endpoint.attributes,
                **({"gen_ai.request.model": model} if model else {}),
                **({"gen_ai.response.model": line.model} if line.model else {}),
                **_build_usage_attributes(reply.tokens_in, reply.cached, reply.tokens_out),
            }
            chat = self._start_operation_span(
                line, "chat", model, reply.at_ms, within, SpanKind.CLIENT, more, f"chat:{n}"
            )
            if reply.outcome in ("malformed", "withheld"):
                _mark_failed(chat, reply.outcome)
            chat.end((reply.at_ms + reply.ms) * _NS)
        for step in line.steps:
            self._add_call_span(line, step, within, ends)
        if line.stopped and line.stopped != "user":
            _mark_failed(root, line.stopped)
        root.end(max(ends, line.started_ms) * _NS)
        made, self._made.spans = self._made.spans, []
        return made

    def _add_call_span(self, line: ExportedRun, step: ExportedStep, within: Context, ends_ms: int) -> None:
        """Add the span of a call. For a call that still waits, it ends at the last known time."""
        began = step.began_ms or line.started_ms
        told: dict[str, Any] = {"arguments": step.args, "result": step.observation}
        more: Attributes = {
            "gen_ai.tool.name": step.tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": step.uid,
            "countersign.gate": step.gate or "",
            "countersign.status": step.status,
            "countersign.args_sha": step.args_sha,
            **{
                f"gen_ai.tool.call.{name}": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                for name, value in told.items()
                if value is not None
            },
        }
        span = self._start_operation_span(
            line, "execute_tool", step.tool, began, within, SpanKind.INTERNAL, more, step.uid
        )
        if step.decision is not None:
            asked, decided = max(step.decision.asked_ms, began), step.decision.decided_ms or ends_ms
            inner = set_span_in_context(span, Context())
            card: Attributes = {
                "countersign.approval.id": step.approval,
                "countersign.approval.state": step.decision.state,
                "countersign.approval.by": step.decision.by,
                "countersign.approval.choice": step.decision.choice,
            }
            waited = self._start_span(line, "approval", asked, inner, SpanKind.INTERNAL, card, f"{step.uid}:card")
            waited.end(max(asked, decided) * _NS)
        if step.status in ("failed", "unknown"):
            _mark_failed(span, step.status)
        span.end((max(ends_ms, began) if step.ms is None else began + step.ms) * _NS)

    def _start_operation_span(
        self, line: ExportedRun, operation: str, what: str, at_ms: int, within: Context | None, kind: SpanKind,
        more: Attributes, key: str = "",
    ) -> Span:  # fmt: skip
        attributes = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": line.conversation, **more}
        attributes |= {} if operation == "execute_tool" else {"gen_ai.provider.name": PROVIDER}
        return self._start_span(line, f"{operation} {what}".strip(), at_ms, within, kind, attributes, key or operation)

    def _start_span(
        self, line: ExportedRun, name: str, at_ms: int, within: Context | None, kind: SpanKind, attributes: Attributes,
        key: str,
    ) -> Span:  # fmt: skip
        self._ids.span = _derive_trace_id(line.run, key, 8)
        return self._tracer.start_span(name, within or Context(), kind, attributes, start_time=at_ms * _NS)


def _derive_trace_id(run: str, key: str, size: int) -> int:
    """Derive an id: always the same for a run and key, and never 0, which is no id."""
    return int.from_bytes(hashlib.sha256(f"{run}/{key}".encode()).digest()[:size]) or 1


def _mark_failed(span: Span, why: str) -> None:
    span.set_attribute("error.type", why)
    span.set_status(Status(StatusCode.ERROR))


def _build_usage_attributes(tokens_in: int, cached: int, tokens_out: int) -> Attributes:
    return {
        "gen_ai.usage.input_tokens": tokens_in,
        "gen_ai.usage.cache_read.input_tokens": cached,
        "gen_ai.usage.output_tokens": tokens_out,
    }


def _format_message(role: str, text: str) -> str:
    finish = {"finish_reason": "stop"} if role == "assistant" else {}
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}], **finish}], ensure_ascii=False)
