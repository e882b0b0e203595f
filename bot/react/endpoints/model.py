"""A model at an OpenAI-compatible endpoint: asked as the `openai` SDK asks, again where that may help, and otherwise
where the endpoint says so."""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from aiohttp import ClientError
from openai import AsyncOpenAI

from bot import logs
from bot.errors import NEEDS_ADMINISTRATOR, Cause, CountersignError, ModelDown, ModelRefused
from bot.react.endpoints.catalog import Catalog
from bot.react.endpoints.chat import Chat
from bot.react.endpoints.fields import parse_json
from bot.react.endpoints.lessons import (
    WEEK_MS,
    Api,
    ApiWish,
    Effort,
    Learned,
    Lessons,
    Sent,
    begin,
    can_teach,
    is_unreplayable,
    learn,
    read_record,
    write_record,
)
from bot.react.endpoints.refusals import Refusal, can_retry, explain, read_refusal, read_wait_s
from bot.react.endpoints.responses import Responses
from bot.react.endpoints.sending import Answer, Http, TooLong, open_http, send, split_login
from bot.react.endpoints.transport import Request, Transport
from bot.react.model import Reply, TextStore
from bot.react.replaying import detach

log = logs.get(__name__)

PAUSE_S, PAUSE_MAX_S = 0.5, 8.0
"""The first wait between two tries is up to so long, each further one up to twice as long, up to the second (s)."""
ASKED_MAX_S = 60.0
"""An endpoint that asks for a longer pause than this is down, as for the SDK (s)."""
LEARNED_MOST = 4
"""So much is learned with one request, at most."""
LOOK_S = 3600.0
"""How often lessons are looked up: other processes learn too, and after a week all is learned anew (s)."""
STREAMED_MOST = 10
"""A reply that keeps coming may take so many times the time that one may take to begin."""
UNWANTED_MOST = 256
"""So much of what was not taken back is known."""
TRANSPORTS: Mapping[Api, Transport] = {"chat": Chat(), "responses": Responses()}


@asynccontextmanager
async def open_model(
    url: str,
    key: str,
    name: str,
    *,
    retries: int = 1,
    api: ApiWish = "auto",
    effort: Effort = "auto",
    memory: TextStore | None = None,
) -> AsyncIterator[OpenAIModel]:
    """A model with one client, for a whole process: making one costs more than a whole step. `url` empty: OpenAI's.
    Without a `memory` it learns for itself alone."""
    async with AsyncOpenAI(base_url=url or None, api_key=key) as client:
        headers = {**_headers(client), "Authorization": f"Bearer {key}"}  # the SDK adds its own to each request
        base, login = split_login(str(client.base_url))
    if login:
        headers["Authorization"] = login
    async with open_http(base) as http:
        yield OpenAIModel(
            http,
            base,
            headers,
            name,
            retries=retries,
            wish=api,
            effort=effort,
            memory=memory,
            learned=Learned(begin(base, api, name)),
            of=hashlib.sha256(f"{base}\n{name}\n{key}".encode()).hexdigest()[:16],
        )


def _headers(client: AsyncOpenAI) -> dict[str, str]:
    """The SDK's, without what it tells of this machine (`X-Stainless-…`)."""
    told = {name: value for name, value in client.default_headers.items() if isinstance(value, str)}
    return {name: value for name, value in told.items() if not name.lower().startswith("x-stainless")}


@dataclass(frozen=True, slots=True)
class Trouble:
    """No answer, and whether another try may bring one."""

    error: ModelDown | ModelRefused
    again: bool = False
    asked_s: float = 0.0
    """How long the endpoint asks to be left alone (s)."""


@dataclass(slots=True)
class OpenAIModel:
    """Implements `Model`.

    A request is put together from JSON that is there already and goes out with the address and the headers of the SDK:
    what the SDK does to each message, header and field costs more CPU than all the rest of a step. Its rules for asking
    again are kept, but for two: the wait is drawn from its whole range (full jitter, so that many runs do not come back
    at once), and all tries share one time.
    """

    http: Http
    url: str
    """With a slash at its end."""
    headers: Mapping[str, str]
    name: str
    temperature: float = 0.3
    retries: int = 1
    """How often one call is asked again, at most."""
    wish: ApiWish = "auto"
    effort: Effort = "auto"
    memory: TextStore | None = None
    learned: Learned = field(default_factory=lambda: Learned(Lessons()))
    of: str = ""
    """Names address, model and key: what this endpoint put out goes back to no other."""
    slow: bool = False
    """A reply ran out of time: from then on replies are streamed, since one that comes slowly is on its way."""
    trouble: Cause | None = None
    """What administrators were told of last; None once it answers."""
    unwanted: deque[str] = field(default_factory=lambda: deque(maxlen=UNWANTED_MOST))
    """What was kept and was not taken back."""
    draw: Callable[[float, float], float] = random.uniform
    """A number between two: the jitter."""
    now: Callable[[], float] = time.time
    """Seconds since the epoch: what a date in Retry-After is held against."""

    @property
    def lessons(self) -> Lessons:
        """How it is asked now."""
        return self.learned.lessons

    @property
    def catalog(self) -> Catalog:
        """The models that its address has."""
        return Catalog(self.http, self.url, self.headers)

    async def reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> Reply:
        await self._look_up()
        try:
            async with asyncio.timeout(timeout_s) as limit:
                return await self._ask(messages, extra, _Time(limit, timeout_s, limit.when() or 0.0))
        except TimeoutError as error:
            self.slow = True
            raise ModelDown(f"no answer within {timeout_s:.0f} s", timeout_s, Cause.TIMEOUT) from error

    async def _ask(self, messages: Sequence[str], extra: str, left: _Time) -> Reply:
        """Try after try, for as long as another one may do and its wait fits into the time left. Raises ModelDown and
        ModelRefused."""
        for tried in range(self.retries + 1):
            answer = await self._try(messages, extra, left)
            if isinstance(answer, Reply):
                self.trouble = None
                return answer
            wait_s = answer.asked_s + self.draw(0, min(PAUSE_S * 2**tried, PAUSE_MAX_S))
            if tried == self.retries or not answer.again or wait_s >= min(left.left_s, ASKED_MAX_S):
                raise await self._tell(answer.error)
            log.info("model.again", model=self.name, error=str(answer.error), wait_s=round(wait_s, 2))
            await asyncio.sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    async def _try(self, messages: Sequence[str], extra: str, left: _Time) -> Reply | Trouble:
        """One answer. What a refusal teaches is done at once, and from then on."""
        stripped = False
        for learning in range(LEARNED_MOST + 1):
            request = self._make_request(messages, extra)
            transport = TRANSPORTS[request.lessons.api]
            try:
                answer = await send(
                    self.http, "POST", f"{self.url}{transport.path}", self.headers, transport.write(request), left.renew
                )
                found = self._read(transport, answer)
            except ClientError as error:
                return Trouble(ModelDown(type(error).__name__), again=True)
            except (ValueError, TooLong) as error:  # a proxy's error page, or an answer without an end
                return Trouble(ModelDown(str(error) or "the endpoint's answer was too long"))
            if isinstance(found, Reply):
                return found
            if learning < LEARNED_MOST:
                if not stripped and is_unreplayable(found) and self._strip(messages):
                    stripped = True
                    continue
                if await self._learn(found, Sent(request.members, request.streamed, self.wish)):
                    continue
            return self._give_up(found, answer.headers)
        raise AssertionError("what cannot be learned ends it")

    def _make_request(self, messages: Sequence[str], extra: str) -> Request:
        lessons = self.lessons
        streamed = (lessons.streams or self.slow) and "stream" not in lessons.dropped
        return Request(
            self.name, messages, extra, lessons, self.temperature, self.effort, self._tag, streamed, self.unwanted
        )

    @property
    def _tag(self) -> str:
        """Whose output is sent back: of this address, model and key, over this transport."""
        return f"{self.of}/{self.lessons.api}"

    def _read(self, transport: Transport, answer: Answer) -> Reply | Refusal:
        """Raises ValueError for what is no answer."""
        if answer.status != 200:
            return _read_filter(read_refusal(answer.status, answer.body), self.name)
        if answer.events is not None:
            whole = transport.gather(answer.events)
            if whole is None:
                raise ValueError("the endpoint's stream ended before its reply did")
        else:
            try:
                whole = parse_json(answer.body)
            except ValueError as error:  # a 200 whose body is no JSON: a proxy's error page
                raise ValueError("the endpoint's answer was not JSON") from error
            if isinstance(whole, str):  # the same, well formed by chance
                raise ValueError("the endpoint's answer was not JSON")
        reply = transport.read(whole, self.name, self._tag)
        if isinstance(reply, Refusal):
            return _read_filter(reply, self.name)
        if not (reply.text or reply.calls or reply.refusal) and reply.finish in ("stop", "empty"):
            log.warning("model.empty", model=self.name, hint="the conversation may be longer than the model can read")
        return reply

    def _strip(self, messages: Sequence[str]) -> bool:
        """From now on nothing is sent back of what these messages brought; True if there was anything."""
        kept = [kept for one in messages if (kept := detach(one)[1]) and kept not in self.unwanted]
        self.unwanted.extend(kept)
        if kept:
            log.info("model.not_taken_back", model=self.name, replies=len(kept))
        return bool(kept)

    async def _learn(self, refusal: Refusal, sent: Sent) -> bool:
        """True if it is asked otherwise from now on: as another process has learned, or by what this refusal says."""
        if not can_teach(refusal):
            return False
        known = await self._recall() or self.lessons
        new = learn(known, refusal, sent) or known
        if new == self.lessons:
            return False
        self.learned.lessons = new
        log.info("model.learned", model=self.name, api=new.api, **_describe(new.told), of=refusal.reason)
        if self.memory is not None:
            with suppress(CountersignError):
                await self.memory.remember(self._record, write_record(new), WEEK_MS)
        return True

    async def _look_up(self) -> None:
        """What others have learned, once in a while."""
        clock = asyncio.get_running_loop().time()
        if self.memory is None or clock - self.learned.looked_s < LOOK_S:
            return
        self.learned.looked_s = clock
        self.learned.lessons = await self._recall() or begin(self.url, self.wish, self.name)

    async def _recall(self) -> Lessons | None:
        """What is kept of this model at this address; None without it, and while the store is away."""
        if self.memory is None:
            return None
        with suppress(CountersignError):
            text = await self.memory.recall(self._record)
            return read_record(text) if text is not None else None
        return None

    @property
    def _record(self) -> str:
        """The name of its record. What was learned by a fixed transport is true of that one alone."""
        return f"lessons {self.wish} {self.url} {self.name}"

    def _give_up(self, refusal: Refusal, headers: Mapping[str, str]) -> Reply | Trouble:
        if refusal.code == "tool_use_failed":  # Groq: the model wrote a call that nobody can read
            return Reply(finish="unreadable", model=self.name)
        asked_s = read_wait_s(headers, self.now())
        return Trouble(explain(refusal, asked_s), can_retry(refusal, headers), asked_s)

    async def _tell(self, error: ModelDown | ModelRefused) -> ModelDown | ModelRefused:
        """Administrators are told what does not pass by itself, once for as long as it lasts."""
        if error.cause not in NEEDS_ADMINISTRATOR or error.cause is self.trouble:
            return error
        self.trouble = error.cause
        if error.cause is Cause.UNKNOWN_MODEL and (near := await self.catalog.find_nearest(self.name)):
            error = ModelDown(f"{error}; there are {', '.join(near)}", cause=error.cause)
        log.error("model.needs_administrator", model=self.name, cause=error.cause.value, error=str(error))
        return error


def _read_filter(found: Refusal | Reply, model: str) -> Refusal | Reply:
    """What a content filter keeps back is a reply that was kept back, in whatever way it is said."""
    return Reply(finish="content_filter", model=model) if isinstance(found, Refusal) and found.filtered else found


def _describe(told: Sequence[str]) -> dict[str, str]:
    return {"how": "; ".join(told)} if told else {}


@dataclass(frozen=True, slots=True)
class _Time:
    """How long one reply may take. Each event of a stream gives it the time of a call anew, up to a limit."""

    limit: asyncio.Timeout
    timeout_s: float
    first: float
    """When its time was up at first, by the loop's clock (s)."""

    @property
    def left_s(self) -> float:
        when = self.limit.when()
        return math.inf if when is None else when - asyncio.get_running_loop().time()

    def renew(self) -> None:
        if not self.limit.expired():
            last = self.first + (STREAMED_MOST - 1) * self.timeout_s
            self.limit.reschedule(min(asyncio.get_running_loop().time() + self.timeout_s, last))
