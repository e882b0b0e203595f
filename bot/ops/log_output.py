"""Structured logs on one stream: JSON for machines, colours on a terminal, never a secret.

All logs, ours and the libraries', go through the standard `logging` and are redacted on output, so no logger can forget
it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import TextIO

import structlog

from bot.core.redaction import redact_text

_OURS = ("bot", "tools", "__main__")  # first parts of the names of our own loggers
LIBRARY_LEVELS = {
    "httpx": logging.WARNING,
    "httpx2": logging.WARNING,
    "httpcore": logging.WARNING,
    "openai": logging.WARNING,
    "aiohttp.access": logging.WARNING,
    "asyncio": logging.WARNING,
    "mail.log": logging.WARNING,
    "opentelemetry": logging.CRITICAL,
    "slack_sdk": logging.INFO,
    "slack_bolt": logging.WARNING,
}
"""The lowest level that is written, by library. These libraries log every request or connection at INFO, whole payloads
at DEBUG, or every failed export of spans (which `bot.tracing.sending` reports once)."""


def redact_value(value: object) -> object:
    """Redact every text in a value, before a renderer adds escapes and colours."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Mapping):
        return {key: redact_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [redact_value(one) for one in value]
    return value


def is_fit_to_write(record: logging.LogRecord) -> bool:
    """Whether a record may be written: not a library's record below INFO, whatever level its loggers set (Bolt's do).
    Such records hold whole payloads with what people wrote."""
    return record.levelno >= logging.INFO or record.name.partition(".")[0] in _OURS


class RedactingFormatter(structlog.stdlib.ProcessorFormatter):
    """A formatter that redacts each rendered line again, because objects and tracebacks may print secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return redact_text(super().format(record))


def configure_logging(level: str = "INFO", json: bool | None = None, stream: TextIO | None = None) -> None:
    """Send every logger to `stream` (standard output). If `json` is None, lines are JSON unless the stream is a
    terminal."""
    target = stream or sys.stdout
    ending: list[structlog.typing.Processor] = (
        [structlog.processors.format_exc_info, _redact_event, structlog.processors.JSONRenderer(ensure_ascii=False)]
        if (json if json is not None else not target.isatty())
        else [_redact_event, structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        RedactingFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *_list_shared_processors()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    handler.addFilter(is_fit_to_write)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name, least in LIBRARY_LEVELS.items():
        logging.getLogger(name).setLevel(max(least, root.level))
    logging.captureWarnings(True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_list_shared_processors(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _redact_event(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {key: one if key == "exc_info" else redact_value(one) for key, one in event.items()}


def _list_shared_processors() -> list[structlog.typing.Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
