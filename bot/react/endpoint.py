"""Any OpenAI-compatible endpoint, by the `openai` SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import openai
from httpx2 import AsyncClient, RequestError, Response
from openai import AsyncOpenAI, DefaultAioHttpClient

from bot import logs
from bot.errors import ModelDown, ModelRefused
from bot.react.model import RawCall, Reply

log = logs.get(__name__)

PAUSE_S = 0.5
"""Between two tries, as the SDK has it."""


@asynccontextmanager
async def open_model(url: str, key: str, name: str, *, retries: int = 1) -> AsyncIterator[OpenAIModel]:
    """A model with one client, for a whole process: making one costs more than a whole step. `url` empty: OpenAI's."""
    http = DefaultAioHttpClient()
    async with AsyncOpenAI(base_url=url or None, api_key=key, http_client=http) as client:
        yield OpenAIModel(client, http, _headers(client), name, retries=retries)


def _headers(client: AsyncOpenAI) -> dict[str, str]:
    """The SDK's, without what it tells of this machine (`X-Stainless-…`)."""
    told = {name: value for name, value in client.default_headers.items() if isinstance(value, str)}
    return {name: value for name, value in told.items() if not name.lower().startswith("x-stainless")}


@dataclass(frozen=True, slots=True)
class OpenAIModel:
    """Chat completions.

    The body of a request is put together from JSON that is there already, and goes straight to the endpoint with the
    SDK's headers over the SDK's connections: what the SDK itself does to each message, header and field of the answer
    costs more CPU than all the rest of a step. Every try after the first is the SDK's own.
    """

    client: AsyncOpenAI
    http: AsyncClient
    headers: Mapping[str, str]
    name: str
    temperature: float = 0.3
    retries: int = 1

    async def reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> Reply:
        body = self._body(messages, extra)
        try:
            response = await self._straight(body, timeout_s) or await self._by_sdk(body, timeout_s)
            answer = json.loads(response.content)
        except openai.APIStatusError as error:
            raise _failure(error.status_code) from error
        except openai.APIError as error:
            raise ModelDown(f"{type(error).__name__}") from error
        except (ValueError, RecursionError) as error:  # a 200 whose body is no JSON: a proxy's error page
            raise ModelDown("the endpoint's answer was not JSON") from error
        if isinstance(answer, str):  # the same, well formed by chance
            raise ModelDown("the endpoint's answer was not JSON")
        return _read(answer)

    async def _straight(self, body: bytes, timeout_s: float) -> Response | None:
        """The first of several tries; None, after the wait that the endpoint asks for, when another one may do.
        Raises ModelDown and ModelRefused when none will."""
        if not self.retries:
            return None
        url, wait_s = f"{self.client.base_url}chat/completions", PAUSE_S
        try:
            response = await self.http.post(url, content=body, headers=self.headers, timeout=timeout_s)
            if response.status_code == 200:
                return response
            if response.status_code not in (408, 409, 429) and response.status_code < 500:
                raise _failure(response.status_code)
            wait_s = _seconds(response.headers.get("retry-after", ""))
        except RequestError as error:
            log.info("the endpoint is asked again", error=type(error).__name__)
        await asyncio.sleep(wait_s)
        return None

    async def _by_sdk(self, body: bytes, timeout_s: float) -> Response:
        """The tries that are left. Raises `openai.APIError`."""
        return await self.client.post(
            "/chat/completions",
            cast_to=Response,
            content=body,
            options={"timeout": timeout_s, "max_retries": max(self.retries - 1, 0)},
        )

    def _body(self, messages: Sequence[str], extra: str) -> bytes:
        known = f'"model":{json.dumps(self.name)},"temperature":{self.temperature}'
        more = f",{extra}" if extra else ""
        return f'{{{known},"messages":[{",".join(messages)}]{more}}}'.encode(errors="replace")


def _failure(status: int) -> ModelDown | ModelRefused:
    """What a refusal means: later it may work, or it will not."""
    if status == 429 or status >= 500:
        return ModelDown(f"HTTP {status}")
    if status in (401, 403, 404, 408, 409):
        return ModelDown(f"HTTP {status}: check OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL")
    return ModelRefused(f"HTTP {status}")


def _seconds(retry_after: str) -> float:
    """How long to wait: what is asked for, if that is a number of seconds up to a minute (the SDK's own rule)."""
    try:
        return wait_s if 0 < (wait_s := float(retry_after)) <= 60 else PAUSE_S
    except ValueError:
        return PAUSE_S


def _read(answer: Any) -> Reply:
    """The parts of a completion that are used. Endpoints differ: any field may be missing, null or of another type."""
    first = next(iter(_list(_field(answer, "choices"))), None)
    message, usage = _field(first, "message"), _field(answer, "usage")
    if message is None:
        return Reply(finish="empty")
    return Reply(
        text=_string(_field(message, "content")),
        calls=tuple(map(_call, _list(_field(message, "tool_calls")))),
        finish=_string(_field(first, "finish_reason")) or "stop",
        refusal=_string(_field(message, "refusal")),
        tokens_in=_count(_field(usage, "prompt_tokens")),
        tokens_cached=_count(_field(_field(usage, "prompt_tokens_details"), "cached_tokens")),
        tokens_out=_count(_field(usage, "completion_tokens")),
    )


def _call(call: Any) -> RawCall:
    """One tool call; what is not there is empty, and refused where it is needed."""
    function = _field(call, "function")
    return RawCall(_string(_field(call, "id")), _string(_field(function, "name")), _text(_field(function, "arguments")))


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _string(value: Any) -> str:
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _text(arguments: Any) -> str:
    """Arguments as text. Some servers send an object where the protocol says string."""
    if isinstance(arguments, str) or arguments is None:
        return arguments or ""
    return json.dumps(arguments, ensure_ascii=False)
