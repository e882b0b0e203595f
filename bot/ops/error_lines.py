"""A known error as one line: the problem and its solution."""

from __future__ import annotations

from bot.core.errors import (
    ChatError,
    CountersignError,
    ModelRejectedError,
    ModelUnavailableError,
    StoreUnavailableError,
)
from bot.core.i18n import translate
from bot.core.redaction import redact_text


def explain_error(error: CountersignError) -> str:
    """Explain in one line what is wrong and how to fix it."""
    match error:
        case StoreUnavailableError():
            return translate("store.down", "en", error=redact_text(str(error)))
        case ChatError():
            addresses = "SLACK_API_URL or FEISHU_API_URL"
            return f"the chat platform cannot be reached ({error}); check the network, HTTPS_PROXY and {addresses}"
        case ModelUnavailableError() | ModelRejectedError():
            return f"no answer of the model ({error}); check OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL"
        case _:
            return str(error)
