"""Learns what an endpoint supports from its own refusals. Tables of names and models get outdated, the endpoint's own
words do not.

Only 400, 404 and 422 teach anything, because 401, 403, 429 and 5xx are about a key, an account or a moment. Chat
templates are the exception: llama.cpp and LM Studio report with a 500 what theirs do not support."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from bot.agent.models.client import ErrorResponse, is_unknown_model

Api = Literal["chat", "responses"]
ApiWish = Literal["auto", "chat", "responses"]
Effort = Literal["none", "minimal", "low", "medium", "high", "auto"]
TEACHING_STATUSES = frozenset({400, 404, 422})
WEEK_MS = 7 * 24 * 3_600_000
"""How long a lesson is kept (ms)."""
EFFORT = "reasoning_effort"
RETURNED_MEMBERS = ("reasoning_content", "extra_content")
"""Members of a step's reply that must come back with the next request: DeepSeek and Kimi, Gemini."""
OPTIONAL_MEMBERS: dict[Api, dict[str, tuple[str, ...]]] = {
    "chat": {
        "temperature": ("temperature",),
        "stop": ("stop",),
        "response_format": ("response_format", "json_object", "json mode"),
        EFFORT: (EFFORT, "reasoning.effort"),
        "stream_options": ("stream_options",),
        "stream": ("stream",),
    },
    "responses": {
        "temperature": ("temperature",),
        "include": ("include", "reasoning.encrypted_content", "encrypted content"),
        EFFORT: ("reasoning.effort", "reasoning", EFFORT),
        "response_format": ("text.format", "text", "response_format", "json_object", "json mode"),
        "strict": ("strict",),
        "store": ("store",),
        "stream": ("stream",),
    },
}
"""Optional members of a request → their names in refusals."""
UNWANTED = (
    *("support", "unknown", "unrecognized", "unexpected", "not permitted", "not allowed", "only 1 is allowed"),
    *("extra inputs", "no such", "must be omitted", "invalid temperature"),
)
"""Words by which an endpoint refuses a member itself, or a value that we may choose."""
NO_STREAM = ("stream mode", "non-streaming", "only support stream", "stream must be set to true", "streaming only")
ONE_SYSTEM = (
    *("system message must be at the beginning", "only one system message", "multiple system messages"),
    *("assistant roles are supported", "and tool roles are supported", "unexpected role 'system'"),
    "for serving but got system",
)
"""Words by which chat templates and relays refuse a system message that is not the first: Qwen's, Mistral's."""
ALTERNATING = ("roles must alternate", "must alternate user", "role 'user' after", "consecutive user messages")
"""Words by which chat templates refuse two messages of one side in a row: Mistral's, Gemma's."""
SILENT_MODELS = ("gpt-oss", "gpt_oss")
"""Models whose chat template silently drops later system messages, so that no refusal teaches it."""
STORED_NAMES = {"missing_apis": "absent", "unsupported": "drop", "streams": "stream"}
"""Members of a profile → their names in a stored record, where these differ."""
RECORD_CONFIG = ConfigDict(validate_by_name=True, alias_generator=lambda name: STORED_NAMES.get(name, name))
NO_SYSTEM = (
    *("system role not supported", "system role is not supported", "developer instruction is not enabled"),
    "messages[0].role' does not support 'system'",
)
"""Words by which chat templates refuse every system message: Gemma's."""

TOOL_NUMBER = re.compile(r"\btools[.\[](\d{1,4})\b\]?(?:\.function_?[dD]eclarations\[(\d{1,4})\])?")
TOOL_NAME = re.compile(r"(?i)(?:\bfunction|\btool|[`'\"])[ :]?[`'\"]?([A-Za-z0-9_-]{1,64})")
"""Patterns for the tool that a refusal means. OpenAI, Anthropic, Groq and vLLM give its number, Gemini gives another
number, and all of them may give its name."""


@dataclass(frozen=True, slots=True, config=RECORD_CONFIG)
class ModelProfile:
    """How one model at one address is asked. Members that a later version adds to a stored record are ignored."""

    api: Api = "chat"
    missing_apis: frozenset[Api] = frozenset()
    """APIs that the address does not have."""
    unsupported: frozenset[str] = frozenset()
    """Members of `OPTIONAL_MEMBERS` that are left out."""
    effort: Literal["", "none"] = ""
    """The value that `reasoning_effort` must have. Empty means the setting's value."""
    returned: frozenset[str] = frozenset()
    """Members of `RETURNED_MEMBERS` that are sent back."""
    streams: bool = False
    """Whether the model answers only in streams."""
    one_system: bool = False
    """Whether the model takes one system message only, the first. Later ones are sent as the user's, with a mark."""
    no_system: bool = False
    """Whether the model takes no system message. The first is then sent as the user's too."""
    alternates: bool = False
    """Whether the model takes no two messages of one side in a row."""
    refused_tools: frozenset[str] = frozenset()
    """Tools that are left out, because the model's endpoint refuses their schemas."""

    @property
    def summary_lines(self) -> list[str]:
        """The profile in words, for `doctor` and the log."""
        some = {
            "left out": self.unsupported,
            "reasoning effort": {self.effort} - {""},
            "sent back": self.returned,
            "not there": self.missing_apis,
        }
        lines = [f"{name}: {', '.join(sorted(values))}" for name, values in some.items() if values]
        lines += ["answers in a stream only"] if self.streams else []
        lines += ["no system message"] if self.no_system else ["one system message"] if self.one_system else []
        return [*lines, *(["neighbouring messages merged"] if self.alternates else [])]


PROFILE_RECORD = TypeAdapter(ModelProfile)


@dataclasses.dataclass(frozen=True, slots=True)
class RefusedRequest:
    """The parts of a refused request that are needed to learn from the refusal."""

    members: frozenset[str]
    """Members of `OPTIONAL_MEMBERS` that were in the request."""
    streamed: bool = False
    api_setting: ApiWish = "auto"
    """The API setting. Only `auto` lets the API change."""
    tools: Sequence[str] = ()
    """The names of the request's tools, in order."""


def choose_initial_profile(url: str, wish: ApiWish, model: str = "") -> ModelProfile:
    """Choose the profile before anything is known. OpenAI and Azure are asked by Responses, which takes the tools of
    all their models. All others are asked by chat completions, which all others have."""
    one_system = any(name in model.casefold() for name in SILENT_MODELS)
    if wish in get_args(Api):
        return ModelProfile("chat" if wish == "chat" else "responses", one_system=one_system)
    host = (urlsplit(url).hostname or "") if url else "api.openai.com"
    theirs = f".{host}".endswith((".api.openai.com", ".openai.azure.com", ".services.ai.azure.com"))
    return ModelProfile("responses" if theirs else "chat", one_system=one_system)


def can_learn_from(refusal: ErrorResponse) -> bool:
    """Return whether a refusal is about the request, not about the moment."""
    return refusal.status in TEACHING_STATUSES or (
        refusal.status == 500 and _mentions_any(refusal, *ONE_SYSTEM, *ALTERNATING, *NO_SYSTEM)
    )


def _mentions_any(refusal: ErrorResponse, *words: str) -> bool:
    return any(one in refusal.lowered_text for one in words)


def learn_from_error(profile: ModelProfile, refusal: ErrorResponse, request: RefusedRequest) -> ModelProfile | None:
    """Return the profile that a refusal teaches: the first change that makes it different. Return None if there is
    none."""
    if not can_learn_from(refusal):
        return None
    changes = _list_changes(profile, refusal, request)
    return next((new for change in changes if (new := replace(profile, **change)) != profile), None)


def _list_changes(profile: ModelProfile, refusal: ErrorResponse, request: RefusedRequest) -> Iterator[dict[str, Any]]:
    """Yield the changes of a profile that a refusal may ask for, the most certain first."""
    text, param, can_change = refusal.lowered_text, refusal.param, request.api_setting == "auto"
    if refusal.is_about_tools:
        # Leave out the tools whose numbers the refusal has, or the first one that it names.
        whole = f"{param} {refusal.text}"
        numbers = [int(inner or outer) for outer, inner in TOOL_NUMBER.findall(whole)]
        found = [request.tools[one] for one in numbers if one < len(request.tools)]
        found = found or [one for one in TOOL_NAME.findall(whole) if one in request.tools][:1]
        yield {"refused_tools": profile.refused_tools.union(found)}

    # Change to Responses if tools or the model need it, to no reasoning effort if tools need that, or to chat
    # completions if the address has no Responses.
    is_missing = refusal.status == 404 and not is_unknown_model(refusal) and "tool use" not in text
    if profile.api == "chat" and "v1/responses" in text and can_change and "responses" not in profile.missing_apis:
        yield {"api": "responses"}
    if "function tools" in text and EFFORT in text and EFFORT not in profile.unsupported:
        yield {"effort": "none"}
    if profile.api == "responses" and is_missing and can_change and "chat" not in profile.missing_apis:
        yield {"api": "chat", "missing_apis": profile.missing_apis | {"responses"}}

    # Send the model's thoughts back with the calls that followed them, or ask for streams.
    if "thought_signature" in text:
        yield {"returned": profile.returned | {"extra_content"}}
    if "reasoning_content" in text and _mentions_any(refusal, "passed back", "missing", "required", "must be"):
        yield {"returned": profile.returned | {"reasoning_content"}}
    if not request.streamed and _mentions_any(refusal, *NO_STREAM):
        yield {"streams": True}

    # Change the roles to those that the chat template takes. If the refusal is about roles that the request already
    # respected, the template takes no system message at all. After any other, one change is tried after the other.
    alternates, is_one_system = _mentions_any(refusal, *ALTERNATING), _mentions_any(refusal, *ONE_SYSTEM)
    is_respected = (alternates and profile.alternates) or (is_one_system and profile.one_system)
    if is_respected or _mentions_any(refusal, *NO_SYSTEM):
        yield {"one_system": True, "no_system": True}
    if alternates:
        yield {"one_system": True, "alternates": True}
    roles = ("'system'", '"system"', "'developer'", '"developer"', "alternat")
    if is_one_system or ("role" in text and _mentions_any(refusal, *roles)):
        yield from ({"one_system": True}, {"alternates": True}, {"no_system": True})

    # Leave out an optional member. OpenAI names it in `param`: `tools[0].strict` means `strict`, `text.format.type`
    # means `text.format`, and `tools` means neither. Relays only repeat OpenAI's words, with the name in quotes or, if
    # it is unambiguous, as a separate word.
    is_unwanted, words = _mentions_any(refusal, *UNWANTED), f" {text.replace(':', ' ')} "
    unambiguous = (
        *("temperature", EFFORT, "stream_options", "encrypted content"),
        *("response_format", "json_object", "json mode"),
    )
    for name, spellings in OPTIONAL_MEMBERS[profile.api].items():
        if any(
            one == param or param.startswith((f"{one}.", f"{one}[")) or param.endswith(f".{one}") for one in spellings
        ):
            is_named = is_unwanted or not refusal.text
        else:
            in_quotes = any(f"{quote}{one}{quote}" in text for one in spellings for quote in "'\"`")
            is_alone = any(f" {one} " in words for one in spellings if one in unambiguous)
            is_named = is_unwanted and not param and (in_quotes or is_alone)
        if is_named and name in request.members and name not in profile.unsupported:
            effort = "" if name == EFFORT else profile.effort
            yield {"unsupported": profile.unsupported | {name}, "effort": effort}


UNREPLAYABLE = (
    *("required following item", "required 'reasoning' item", "items are not persisted", "no tool output found for"),
    *("no tool call found for function call output", "could not be verified", "encrypted_content", "encrypted content"),
)
"""Words by which an endpoint refuses details that were sent back unchanged: a pair is broken, or another key encrypted
them."""


def is_unreplayable(refusal: ErrorResponse) -> bool:
    """Return whether the endpoint does not take its own details back. The conversation also works without them."""
    if refusal.status not in TEACHING_STATUSES or refusal.param == "include":
        return False
    return refusal.code == "invalid_encrypted_content" or _mentions_any(refusal, *UNREPLAYABLE)
