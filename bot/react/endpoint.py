"""Any OpenAI-compatible endpoint, by the `openai` SDK."""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

from httpx2 import AsyncClient, RequestError, Response
from openai import AsyncOpenAI, DefaultAioHttpClient

from bot import logs
from bot.errors import ModelDown, ModelRefused
from bot.react.model import RawCall, Reply

log = logs.get(__name__)

PAUSE_S, PAUSE_MAX_S = 0.5, 8.0
"""The first wait between two tries is up to so long, each further one up to twice as long, up to the second (s)."""
ASKED_MAX_S = 60.0
"""An endpoint that asks for a longer pause than this is down, as for the SDK (s)."""
REASON = 200
"""Characters of what an endpoint says of a request that it refuses."""
MOST_TOKENS = 100_000_000
"""No reply has more: a figure above it would only spoil what is added up."""
SPARE = frozenset({"temperature", "stop"})
"""What a request can do without: models that reason by themselves refuse any but the default of either, with 400."""
AGAIN = frozenset({408, 409, 429})
"""What may work when it is asked again, as may any 5xx: the SDK's own rule."""


@asynccontextmanager
async def open_model(url: str, key: str, name: str, *, retries: int = 1) -> AsyncIterator[OpenAIModel]:
    """A model with one client, for a whole process: making one costs more than a whole step. `url` empty: OpenAI's."""
    http = DefaultAioHttpClient()
    async with AsyncOpenAI(base_url=url or None, api_key=key, http_client=http) as client:
        headers = {**_headers(client), "Authorization": f"Bearer {key}"}  # the SDK adds its own to each request
        yield OpenAIModel(client, http, headers, name, retries=retries)


def _headers(client: AsyncOpenAI) -> dict[str, str]:
    """The SDK's, without what it tells of this machine (`X-Stainless-…`)."""
    told = {name: value for name, value in client.default_headers.items() if isinstance(value, str)}
    return {name: value for name, value in told.items() if not name.lower().startswith("x-stainless")}


@dataclass(frozen=True, slots=True)
class OpenAIModel:
    """Chat completions.

    The body of a request is put together from JSON that is there already, and goes straight to the endpoint with the
    SDK's headers over the SDK's connections: what the SDK itself does to each message, header and field of the answer
    costs more CPU than all the rest of a step. Its rules for asking again are kept, but for two: the wait is drawn
    from its whole range (full jitter, so that many runs do not come back at once), and all tries share one time.
    """

    client: AsyncOpenAI
    http: AsyncClient
    headers: Mapping[str, str]
    name: str
    temperature: float = 0.3
    retries: int = 1
    """How often one call is asked again, at most."""
    spared: set[str] = field(default_factory=set)
    """Of `SPARE`, what the endpoint has refused."""
    draw: Callable[[float, float], float] = random.uniform
    """A number between two: the jitter."""
    now: Callable[[], float] = time.time
    """Seconds since the epoch: what a date in Retry-After is held against."""

    async def reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> Reply:
        try:
            async with asyncio.timeout(timeout_s) as limit:
                response = await self._response(messages, extra, limit)
        except TimeoutError as error:
            raise ModelDown(f"no answer within {timeout_s:.0f} s") from error
        try:
            answer = json.loads(response.content)
        except (ValueError, RecursionError) as error:  # a 200 whose body is no JSON: a proxy's error page
            raise ModelDown("the endpoint's answer was not JSON") from error
        if isinstance(answer, str):  # the same, well formed by chance
            raise ModelDown("the endpoint's answer was not JSON")
        return _read(answer, self.name)

    async def _response(self, messages: Sequence[str], extra: str, limit: asyncio.Timeout) -> Response:
        """Try after try, for as long as another one may do and its wait fits into the time left. Raises ModelDown and
        ModelRefused."""
        for tried in range(self.retries + 1):
            answer = await self._try(messages, extra)
            if isinstance(answer, Response) and answer.status_code == 200:
                return answer
            asked_s = _asked_s(answer.headers, self.now()) if isinstance(answer, Response) else 0.0
            down = _failure(answer, asked_s)
            wait_s = asked_s + self.draw(0, min(PAUSE_S * 2**tried, PAUSE_MAX_S))
            if tried == self.retries or not _again(answer) or wait_s >= min(_left_s(limit), ASKED_MAX_S):
                raise down
            log.info("model.again", model=self.name, error=str(down), wait_s=round(wait_s, 2))
            await asyncio.sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    async def _try(self, messages: Sequence[str], extra: str) -> Response | RequestError:
        """One answer; an error where there is none. What the endpoint says it does not take is left out at once, and
        from then on. The time is kept around all tries."""
        url = f"{self.client.base_url}chat/completions"
        while True:
            body = self._body(messages, extra)
            try:
                answer = await self.http.post(url, content=body, headers=self.headers, timeout=None)
            except RequestError as error:
                return error
            if not (refused := _refused(answer) - self.spared):
                return answer
            log.info("model.spares", model=self.name, left_out=sorted(refused))
            self.spared.update(refused)

    def _body(self, messages: Sequence[str], extra: str) -> bytes:
        known = f'"model":{json.dumps(self.name)}'
        if "temperature" not in self.spared:
            known += f',"temperature":{self.temperature}'
        more = _without(extra, frozenset(self.spared)) if self.spared else extra
        return f'{{{known},"messages":[{",".join(messages)}]{"," if more else ""}{more}}}'.encode(errors="replace")


def _reason(answer: Response) -> str:
    """What the endpoint says is wrong, in a line for administrators."""
    try:
        error = _field(json.loads(answer.content), "error")
    except (ValueError, RecursionError):
        return ""
    said = _string(_field(error, "message")) or _string(error)
    return logs.redact(" ".join(said.split()))[:REASON]


def _refused(answer: Response) -> frozenset[str]:
    """Of what a request can do without, what is said not to be supported. OpenAI names it in `param`; others repeat
    only its words."""
    if answer.status_code != 400:
        return frozenset()
    try:
        error = _field(json.loads(answer.content), "error")
    except (ValueError, RecursionError):
        return frozenset()
    param, told = _field(error, "param"), _string(_field(error, "message"))
    return frozenset(name for name in SPARE if name == param or (f"'{name}'" in told and "support" in told))


@lru_cache(maxsize=64)
def _without(extra: str, names: frozenset[str]) -> str:
    """Members of a request without some of them."""
    kept = {name: value for name, value in json.loads(f"{{{extra}}}").items() if name not in names}
    return json.dumps(kept, ensure_ascii=False)[1:-1]


def _left_s(limit: asyncio.Timeout) -> float:
    when = limit.when()
    return math.inf if when is None else when - asyncio.get_running_loop().time()


def _again(answer: Response | RequestError) -> bool:
    """Another try may do: no answer at all, or one that says so. An endpoint that knows better is believed."""
    if isinstance(answer, RequestError):
        return True
    transient = answer.status_code in AGAIN or answer.status_code >= 500
    return transient and answer.headers.get("x-should-retry") != "false"


def _failure(answer: Response | RequestError, wait_s: float) -> ModelDown | ModelRefused:
    """What no answer means, or one other than 200: later it may work, or it will not."""
    if isinstance(answer, RequestError):
        return ModelDown(type(answer).__name__)
    status = answer.status_code
    if status in AGAIN or status >= 500:
        return ModelDown(f"HTTP {status}", wait_s=wait_s)
    if status in (401, 403, 404):
        return ModelDown(f"HTTP {status}: check its key, its address and its name")
    return ModelRefused(f"HTTP {status} {_reason(answer)}".strip())


def _asked_s(headers: Mapping[str, str], now: float) -> float:
    """How long the endpoint asks to be left alone (s): `Retry-After-Ms`, or `Retry-After` in seconds or as an HTTP
    date. 0 if it does not say, or nothing that can be read."""
    ms, after = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    for text, unit in ((ms, 1000), (after, 1)):
        with suppress(ValueError):
            return _sure(float(text) / unit)
    with suppress(ValueError, TypeError, OverflowError):
        return _sure(parsedate_to_datetime(after).timestamp() - now)
    return 0.0


def _sure(seconds: float) -> float:
    """Neither gone by, nor infinite, nor no number."""
    return seconds if 0 < seconds < math.inf else 0.0


def _read(answer: Any, model: str = "") -> Reply:
    """The parts of a completion that are used. Endpoints differ: any field may be missing, null or of another type."""
    first = next(iter(_list(_field(answer, "choices"))), None)
    message, usage = _field(first, "message"), _field(answer, "usage")
    finish = _string(_field(first, "finish_reason")) or "stop"
    return Reply(
        text=_string(_field(message, "content")),
        calls=tuple(map(_call, _list(_field(message, "tool_calls")))),
        finish="empty" if message is None else finish,
        refusal=_string(_field(message, "refusal")),
        tokens_in=_count(_field(usage, "prompt_tokens")),
        tokens_cached=_count(_field(_field(usage, "prompt_tokens_details"), "cached_tokens")),
        tokens_out=_count(_field(usage, "completion_tokens")),
        model=model,
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
    """A figure of the endpoint's own, as far as it can be true."""
    return min(max(value, 0), MOST_TOKENS) if isinstance(value, int) and not isinstance(value, bool) else 0


def _text(arguments: Any) -> str:
    """Arguments as text. Some servers send an object where the protocol says string."""
    if isinstance(arguments, str) or arguments is None:
        return arguments or ""
    return json.dumps(arguments, ensure_ascii=False)
