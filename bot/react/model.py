"""The model behind one method, over any OpenAI-compatible endpoint; and a scripted one for tests and evaluation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import openai
from openai import AsyncOpenAI, DefaultAioHttpClient

from bot.errors import ModelDown, ModelRefused

Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class RawCall:
    """A tool call as the model wrote it: nothing checked yet."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of a model."""

    text: str = ""
    calls: tuple[RawCall, ...] = ()
    finish: str = "stop"
    """`stop`, `tool_calls`, `length` (cut off: never executed), `content_filter`."""
    tokens_in: int = 0
    tokens_out: int = 0


class Model(Protocol):
    async def reply(self, messages: Messages, tools: Sequence[dict[str, Any]], *, timeout_s: float) -> Reply:
        """One reply. Raises `ModelDown` when it may work later, `ModelRefused` when it will not."""


@asynccontextmanager
async def open_model(url: str, key: str, name: str, *, retries: int = 1) -> AsyncIterator[OpenAIModel]:
    """A model with one client, for a whole process: making one costs more than a whole step. `url` empty: OpenAI's."""
    async with AsyncOpenAI(base_url=url or None, api_key=key, http_client=DefaultAioHttpClient()) as client:
        yield OpenAIModel(client, name, retries=retries)


@dataclass(frozen=True, slots=True)
class OpenAIModel:
    """Chat completions with native tool calls.

    Messages and tools travel in `extra_body`: the SDK's own transform walks every message of the history
    on every call, which costs more CPU than all the rest of a step, and yields the same request.
    """

    client: AsyncOpenAI
    name: str
    temperature: float = 0.3
    retries: int = 1

    async def reply(self, messages: Messages, tools: Sequence[dict[str, Any]], *, timeout_s: float) -> Reply:
        body: dict[str, Any] = {"messages": messages}
        if tools:
            body["tools"] = list(tools)
        client = self.client.with_options(timeout=timeout_s, max_retries=self.retries)
        try:
            answer = await client.chat.completions.create(
                model=self.name, messages=[], temperature=self.temperature, extra_body=body
            )
        except (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError) as error:
            raise ModelDown(f"{type(error).__name__}") from error
        except openai.APIStatusError as error:
            if error.status_code in (401, 403, 404, 408, 409):
                raise ModelDown(
                    f"HTTP {error.status_code}: check OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL"
                ) from error
            raise ModelRefused(f"HTTP {error.status_code}") from error
        except openai.APIError as error:
            raise ModelDown(f"{type(error).__name__}") from error
        except ValueError as error:  # a 200 whose body is no JSON: a proxy's error page
            raise ModelDown("the endpoint's answer was not JSON") from error
        if isinstance(answer, str):  # the same, and honest about its content type
            raise ModelDown("the endpoint's answer was not JSON")
        return _read(answer)


def _read(answer: Any) -> Reply:
    """The parts of a completion that are used. Endpoints differ: any field may be missing, null or of another type."""
    choices = getattr(answer, "choices", None)
    first = choices[0] if isinstance(choices, list) and choices else None
    message, usage = getattr(first, "message", None), getattr(answer, "usage", None)
    if message is None:
        return Reply(finish="empty")
    calls = getattr(message, "tool_calls", None)
    return Reply(
        text=_string(getattr(message, "content", None)),
        calls=tuple(map(_call, calls)) if isinstance(calls, list) else (),
        finish=_string(getattr(first, "finish_reason", None)) or "stop",
        tokens_in=_count(getattr(usage, "prompt_tokens", 0)),
        tokens_out=_count(getattr(usage, "completion_tokens", 0)),
    )


def _call(call: Any) -> RawCall:
    """One tool call; what is not there is empty, and refused where it is needed."""
    function = getattr(call, "function", None)
    arguments = getattr(function, "arguments", None)
    return RawCall(_string(getattr(call, "id", None)), _string(getattr(function, "name", None)), _text(arguments))


def _string(value: Any) -> str:
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _text(arguments: Any) -> str:
    """Arguments as text. Some servers send an object where the protocol says string."""
    if isinstance(arguments, str) or arguments is None:
        return arguments or ""
    return json.dumps(arguments, ensure_ascii=False)


Scripted = Reply | BaseException | Callable[[Messages], Awaitable[Reply]]


@dataclass
class ScriptedModel:
    """Plays replies in order: a `Reply`, an exception to raise, or a function of the messages. Past the end it
    answers `done`, so that a test that forgot a reply sees a final answer and not a hang."""

    script: list[Scripted]
    asked: list[Messages] = field(default_factory=list)

    async def reply(self, messages: Messages, tools: Sequence[dict[str, Any]], *, timeout_s: float) -> Reply:
        self.asked.append([dict(message) for message in messages])
        turn = self.script.pop(0) if self.script else Reply(text="done")
        if isinstance(turn, BaseException):
            raise turn
        return turn if isinstance(turn, Reply) else await turn(messages)
