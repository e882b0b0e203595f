"""The loggers of all rooms, and the context on their lines. `bot.ops.log_output` writes and redacts the lines.

Context (run, conversation, person) is bound once and appears on every line."""

from __future__ import annotations

import structlog

from bot.core.redaction import redact_text as redact_text


def bind_context(**context: object) -> None:
    """Add context (run, conversation, person …) to every line of this task from now on."""
    structlog.contextvars.bind_contextvars(**context)


def clear_context() -> None:
    """Clear this task's context."""
    structlog.contextvars.clear_contextvars()


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return a logger, for use like `get_logger(__name__).info("claimed", lane=lane)`."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
