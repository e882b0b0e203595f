"""Sends one request of a run to its model."""

from __future__ import annotations

from collections.abc import Sequence

from bot.agent.model import Model, ModelReply
from bot.agent.prompt import cut_older_turns
from bot.core import logs
from bot.core.errors import ModelFailureCause, ModelRejectedError

log = logs.get_logger(__name__)


async def request_reply_within_context(
    model: Model, head: list[str], own: Sequence[str], body: str, *, timeout_s: float
) -> ModelReply:
    """Request one reply. If the context is too long, ask once more without most of the conversation before the run.
    `head` stays shortened. Raises `ModelUnavailableError` and `ModelRejectedError`."""
    try:
        return await model.request_reply([*head, *own], body, timeout_s=timeout_s)
    except ModelRejectedError as error:
        shorter = cut_older_turns(head) if error.cause is ModelFailureCause.CONTEXT else None
        if shorter is None:
            raise
        log.info("model.history_cut", error=str(error))
    head[:] = shorter
    return await model.request_reply([*head, *own], body, timeout_s=timeout_s)
