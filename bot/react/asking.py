"""One request of a run to its model."""

from __future__ import annotations

from collections.abc import Sequence

from bot import logs
from bot.errors import Cause, ModelRefused
from bot.react.model import Model, Reply
from bot.react.prompt import cut_turns

log = logs.get(__name__)


async def ask(model: Model, head: list[str], own: Sequence[str], body: str, *, timeout_s: float) -> Reply:
    """One reply. What is too long for the model is told once more without most of what was said before the run: `head`
    stays so short. Raises `ModelDown` and `ModelRefused`."""
    try:
        return await model.reply([*head, *own], body, timeout_s=timeout_s)
    except ModelRefused as error:
        shorter = cut_turns(head) if error.cause is Cause.CONTEXT else None
        if shorter is None:
            raise
        log.info("model.history_cut", error=str(error))
    head[:] = shorter
    return await model.reply([*head, *own], body, timeout_s=timeout_s)
