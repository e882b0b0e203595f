"""What an endpoint says instead of an answer, and what that means.

The shapes are those of OpenAI, Azure, Gemini (an array), OpenRouter (inside a 200), FastAPI and vLLM (no `error`), and
of relays that put another endpoint's error into a text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from bot import logs
from bot.errors import Cause, ModelDown, ModelRefused
from bot.react.endpoints.fields import parse_json, read_field, read_list, read_string

REASON, READ = 200, 4_000
"""Characters of an endpoint's words that administrators are told, and that are read."""
AGAIN = frozenset({408, 409, 429})
"""What may work when it is asked again, as may any 5xx: the SDK's own rule."""
FAILED = 502
"""The status of an error inside a 200 that tells none."""
FILTERED = frozenset({"content_filter", "content_policy_violation", "invalid_prompt", "data_inspection_failed", "1301"})
"""Codes of a prompt that a content filter has kept back: Azure, OpenAI, Qwen, GLM."""
QUOTA = frozenset(
    {
        *("insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached"),
        *("exceeded_current_quota_error", "1113", *map(str, range(1308, 1322))),
    }
)
"""Codes and types of what was paid for and is used up: OpenAI, Kimi, GLM."""
UNKNOWN = frozenset({"model_not_found", "model_not_exist", "deploymentnotfound"})
TOO_LONG = (
    *("maximum context length", "exceeds the context window", "context length exceeded", "prompt is too long"),
    *("exceeds the available context", "input is too long", "request too large for", "exceed_context_size"),
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as its endpoint tells it; what it does not say is empty."""

    status: int
    text: str = ""
    code: str = ""
    kind: str = ""
    """Its `type`, or Google's `status`."""
    param: str = ""
    inner: str = ""
    """Azure's reason behind the code."""
    json: bool = True
    """Told in JSON: not by a proxy, and not by a server that knows no such path."""

    @property
    def words(self) -> str:
        """All that can be looked for in it, in small letters."""
        return self.text.casefold()

    @property
    def reason(self) -> str:
        """A line for administrators."""
        return f"HTTP {self.status} {logs.redact(self.text)[:REASON]}".strip()

    @property
    def filtered(self) -> bool:
        """A content filter has kept the conversation back."""
        flagged = self.status == 403 and ("moderation" in self.words or "flagged" in self.words)
        return flagged or self.code in FILTERED or self.inner == "ResponsibleAIPolicyViolation"


def read_refusal(status: int, body: bytes) -> Refusal:
    """An answer other than 200."""
    try:
        return read_error(status, parse_json(body))
    except ValueError:
        return Refusal(status, json=False)


def read_error(status: int, answer: Any) -> Refusal:
    """An error in JSON, whatever its shape."""
    whole = answer[0] if isinstance(answer, list) and answer else answer
    error = read_field(whole, "error")
    if isinstance(error, str):
        return Refusal(status, _flatten(error))
    if not isinstance(error, dict):
        error = whole if isinstance(whole, dict) else {}
    if details := read_list(read_field(error, "detail")):
        return _read_validation(status, details[0])
    told = read_string(error.get("message") or error.get("detail"))
    inner = read_string(read_field(error, "metadata", "raw"))  # OpenRouter: what the provider has said
    return Refusal(
        status,
        _flatten(f"{told} {inner}"),
        _read_name(error.get("code")),
        _read_name(error.get("type")) or _read_name(error.get("status")),
        _read_name(error.get("param")),
        _read_name(read_field(error, "innererror", "code")),
    )


def _read_validation(status: int, detail: Any) -> Refusal:
    """FastAPI's first finding: where in the body, and what."""
    place = [one for one in read_list(read_field(detail, "loc")) if isinstance(one, str) and one != "body"]
    return Refusal(status, _flatten(read_string(read_field(detail, "msg"))), param=".".join(place)[:READ])


def find_error(answer: Any) -> Refusal | None:
    """The error inside an answer with status 200, if there is one: relays begin to answer before they know."""
    if isinstance(answer, list):
        return read_error(FAILED, answer)
    first = next(iter(read_list(read_field(answer, "choices"))), None)
    if not (error := read_field(answer, "error") or read_field(first, "error")):
        return None
    status = read_field(error, "code")
    known = isinstance(status, int) and not isinstance(status, bool) and 400 <= status <= 599
    return read_error(status if known else FAILED, {"error": error})


def explain(refusal: Refusal, wait_s: float = 0.0) -> ModelDown | ModelRefused:
    """What it means: later it may work, or elsewhere; or it will not."""
    cause = find_cause(refusal)
    match cause:
        case Cause.CONTEXT | Cause.REQUEST:
            return ModelRefused(refusal.reason, cause)
        case Cause.BUSY:
            return ModelDown(f"HTTP {refusal.status}", wait_s, cause)
        case Cause.QUOTA:
            return ModelDown(f"{refusal.reason}: what was paid for is used up", wait_s, cause)
        case _:
            return ModelDown(f"{refusal.reason}: check its key, its address and its name", wait_s, cause)


def find_cause(refusal: Refusal) -> Cause:
    """Why an endpoint refuses, by its status, its codes and, where these tell nothing, its words."""
    status = refusal.status
    if status == 402 or (status in (403, 429) and _is_quota(refusal)):
        return Cause.QUOTA
    if _is_too_long(refusal):
        return Cause.CONTEXT
    if status in (400, 404) and is_unknown_model(refusal):
        return Cause.UNKNOWN_MODEL
    if status in (401, 403) or refusal.code == "invalid_api_key" or "api key not valid" in refusal.words:
        return Cause.KEY
    if status == 404:
        return Cause.ADDRESS
    return Cause.BUSY if status in AGAIN or status >= 500 else Cause.REQUEST


def is_unknown_model(refusal: Refusal) -> bool:
    """There is no model of that name."""
    if refusal.code.casefold() in UNKNOWN:
        return True
    missing = any(words in refusal.words for words in ("not exist", "not found", "no such"))
    return missing and "model" in refusal.words and refusal.json


def can_retry(refusal: Refusal, headers: Mapping[str, str]) -> bool:
    """Another try may do. An endpoint that knows better is believed."""
    return find_cause(refusal) is Cause.BUSY and headers.get("x-should-retry") != "false"


def _is_quota(refusal: Refusal) -> bool:
    named = {refusal.code, refusal.kind}
    return not named.isdisjoint(QUOTA) or any(one.endswith("_spend_limit_exceeded") for one in named)


def _is_too_long(refusal: Refusal) -> bool:
    if refusal.code == "context_length_exceeded" or refusal.kind == "exceed_context_size_error":
        return True
    return refusal.status in (400, 413, 422, 429, 500) and any(words in refusal.words for words in TOO_LONG)


def read_wait_s(headers: Mapping[str, str], now: float) -> float:
    """How long the endpoint asks to be left alone (s): `Retry-After-Ms`, or `Retry-After` in seconds or as an HTTP
    date. 0 if it does not say, or nothing that can be read."""
    ms, after = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    for text, unit in ((ms, 1000), (after, 1)):
        with suppress(ValueError):
            return _keep_finite(float(text) / unit)
    with suppress(ValueError, TypeError, OverflowError):
        return _keep_finite(parsedate_to_datetime(after).timestamp() - now)
    return 0.0


def _keep_finite(seconds: float) -> float:
    """Neither gone by, nor infinite, nor no number."""
    return seconds if 0 < seconds < math.inf else 0.0


def _flatten(text: str) -> str:
    return " ".join(text[:READ].split())


def _read_name(value: Any) -> str:
    """A code, whether it was written as a text or as a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return read_string(value)[:READ]
