"""A model at an OpenAI-compatible endpoint. Requests are those of the `openai` SDK, with retries where they may help,
and changed where the endpoint demands it."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from openai import AsyncOpenAI

from bot.agent.model import ModelReply, TextStore, detach_details
from bot.agent.models.catalog import find_similar_models
from bot.agent.models.chat import ChatCompletionsTransport
from bot.agent.models.client import (
    CONNECTION_ERRORS,
    ErrorResponse,
    RefusalError,
    build_model_error,
    can_retry_request,
    open_client,
    parse_retry_after_s,
    send_request,
)
from bot.agent.models.fields import parse_events, parse_json
from bot.agent.models.model_profile import (
    PROFILE_RECORD,
    WEEK_MS,
    Api,
    ApiWish,
    Effort,
    ModelProfile,
    RefusedRequest,
    can_learn_from,
    choose_initial_profile,
    is_unreplayable,
    learn_from_error,
)
from bot.agent.models.responses import ResponsesTransport
from bot.agent.models.transport import ModelRequest, leave_out_tools, parse_members
from bot.core import logs, metrics
from bot.core.errors import (
    NEEDS_ADMINISTRATOR,
    CountersignError,
    ModelFailureCause,
    ModelRejectedError,
    ModelUnavailableError,
)

log = logs.get_logger(__name__)

PAUSE_S, PAUSE_MAX_S = 0.5, 8.0
"""Waits between two tries (s). The first wait is at most the first value. Each further wait is at most twice as long,
up to the second value."""
MAX_RETRY_AFTER_S = 60.0
"""Longest pause that an endpoint may demand (s). With a longer one, the endpoint counts as down, as for the SDK."""
MAX_LESSONS = 4
"""Most lessons learned from one request."""
PROFILE_REFRESH_S = 3600.0
"""Time between two loads of the lessons (s). Other processes learn too, and lessons expire after a week."""
MAX_STREAM_FACTOR = 10
"""Factor by which a reply that keeps coming may exceed the time limit of its start."""
MAX_REJECTED_DETAILS = 256
"""Most rejected details that are remembered."""
ReportRefusedTools = Callable[[Sequence[str], str], Awaitable[None]]
TRANSPORTS: Mapping[Api, ChatCompletionsTransport | ResponsesTransport] = {
    "chat": ChatCompletionsTransport(),
    "responses": ResponsesTransport(),
}


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
    report_refused_tools: ReportRefusedTools | None = None,
) -> AsyncIterator[OpenAIModel]:
    """Open a model with one client for the whole process, because making a client costs more than a whole step. An
    empty `url` is OpenAI's. Without a `memory`, the model's lessons stay in this process."""
    async with open_client(url, key) as client:
        base = str(client.base_url)
        yield OpenAIModel(
            client=client,
            name=name,
            retries=retries,
            api_setting=api,
            effort=effort,
            memory=memory,
            report_refused_tools=report_refused_tools,
            profile=choose_initial_profile(base, api, name),
            owner=hashlib.sha256(f"{base}\n{name}\n{key}".encode()).hexdigest()[:16],
        )


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """A request without an answer, and whether a retry may help."""

    error: ModelUnavailableError | ModelRejectedError
    can_retry: bool = False


@dataclass(slots=True, kw_only=True)
class OpenAIModel:
    """Implements `Model`.

    The SDK's retry rules are kept, with two changes. Waits use full jitter, so that many runs do not come back at once,
    and all tries share one time limit."""

    client: AsyncOpenAI
    name: str
    retries: int = 1
    """Most retries of one call."""
    api_setting: ApiWish = "auto"
    effort: Effort = "auto"
    memory: TextStore | None = None
    report_refused_tools: ReportRefusedTools | None = None
    """Tells administrators about the tools that the endpoint has just refused, and why."""
    profile: ModelProfile = field(default_factory=ModelProfile)
    """The lessons of this process."""
    refreshed_s: float = float("-inf")
    """When the lessons were last loaded, by the loop's clock."""
    owner: str = ""
    """Names address, model and key. Output of this endpoint goes back to no other."""
    slow: bool = False
    """Whether a reply ran out of time. Replies are then streamed until a stream fails, because a slow stream still
    shows progress."""
    last_failure: ModelFailureCause | None = None
    """The failure that administrators were last told of. None once the model answers."""
    rejected_details: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_REJECTED_DETAILS))
    """Stored details that the endpoint did not take back."""
    draw_jitter: Callable[[float, float], float] = random.uniform
    """Returns a random number between two numbers."""
    now: Callable[[], float] = time.time
    """Returns seconds since the epoch, for dates in Retry-After."""

    def __post_init__(self) -> None:
        for cause in NEEDS_ADMINISTRATOR:
            metrics.MODEL_REQUESTS.labels(self.name, cause.value)  # at zero, so that the first failure is an increase

    @property
    def url(self) -> str:
        """The model's address, without a login."""
        return str(self.client.base_url)

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        """Retry while a retry may help and the wait fits into the time left. Administrators are told of a lasting
        failure, once for as long as it lasts."""
        clock = asyncio.get_running_loop().time()
        if self.memory is not None and clock - self.refreshed_s >= PROFILE_REFRESH_S:
            self.refreshed_s = clock
            initial = choose_initial_profile(self.url, self.api_setting, self.name)
            self.profile = await self._load_profile() or initial
        with metrics.time_outcome(metrics.MODEL_REQUESTS, outcome="answered", model=self.name) as ended:
            try:
                async with asyncio.timeout(timeout_s) as limit:
                    deadline = _ReplyDeadline(limit, timeout_s, limit.when() or 0.0)
                    for attempt in range(self.retries + 1):
                        answer = await self._try_request(messages, extra, deadline)
                        if isinstance(answer, ModelReply):
                            self.last_failure = None
                            return answer
                        error = answer.error
                        asked_s = error.wait_s if isinstance(error, ModelUnavailableError) else 0.0
                        wait_s = asked_s + self.draw_jitter(0, min(PAUSE_S * 2**attempt, PAUSE_MAX_S))
                        fits = wait_s < min(deadline.remaining_s, MAX_RETRY_AFTER_S)
                        if attempt == self.retries or not answer.can_retry or not fits:
                            break
                        metrics.MODEL_RETRIES.labels(self.name, error.cause.value).inc()
                        log.info("model.again", model=self.name, error=str(error), wait_s=round(wait_s, 2))
                        await asyncio.sleep(wait_s)
                    if error.cause in NEEDS_ADMINISTRATOR and error.cause is not self.last_failure:
                        self.last_failure = error.cause
                        is_unknown = error.cause is ModelFailureCause.UNKNOWN_MODEL
                        if near := await find_similar_models(self.client, self.name) if is_unknown else ():
                            error = ModelUnavailableError(f"{error}; there are {', '.join(near)}", cause=error.cause)
                        why = {"model": self.name, "cause": error.cause.value, "error": str(error)}
                        log.error("model.needs_administrator", **why)
                    ended.name = error.cause.value
                    raise error
            except TimeoutError as late:
                self.slow, ended.name = not deadline.is_streamed, ModelFailureCause.TIMEOUT.value
                text = f"no answer within {timeout_s:.0f} s"
                raise ModelUnavailableError(text, timeout_s, ModelFailureCause.TIMEOUT) from late
            except asyncio.CancelledError:
                ended.name = "cancelled"
                raise

    async def _try_request(
        self, messages: Sequence[str], extra: str, deadline: _ReplyDeadline
    ) -> ModelReply | FailedRequest:
        """Request one answer. A lesson from a refusal applies at once, and to all later requests."""
        is_stripped = False
        for learning in range(MAX_LESSONS + 1):
            lessons = self.profile
            request = ModelRequest(
                model=self.name,
                messages=messages,
                extra=leave_out_tools(extra, lessons.refused_tools) if lessons.refused_tools else extra,
                profile=lessons,
                effort=self.effort,
                owner=self._owner_tag,
                streamed=(lessons.streams or self.slow) and "stream" not in lessons.unsupported,
                rejected_details=self.rejected_details,
            )
            transport, deadline.is_streamed = TRANSPORTS[request.profile.api], request.streamed
            try:
                body = transport.encode_request(request)
                answer = await send_request(self.client, transport.path, body, deadline.extend_deadline)
                if answer.lstrip().startswith((b"{", b"[")):  # a stream may have any content type
                    whole = parse_json(answer)
                else:
                    events, has_said_end = parse_events(answer)
                    whole = transport.join_events(events, has_said_end=has_said_end)
                if whole is None:
                    raise ValueError("the endpoint's answer was not JSON, or ended before its reply did")
                parsed = transport.parse_response(whole, self.name, self._owner_tag)
            except RefusalError as refused:
                parsed = refused.refusal
            except (*CONNECTION_ERRORS, ValueError) as failed:  # no connection, or a proxy's error page
                is_unreadable, self.slow = isinstance(failed, ValueError), self.slow and not request.streamed
                cause: BaseException = failed
                while cause.__cause__ is not None:
                    cause = cause.__cause__
                text = str(failed) if is_unreadable else type(cause).__name__
                return FailedRequest(ModelUnavailableError(text), can_retry=request.streamed or not is_unreadable)
            if isinstance(parsed, ModelReply):
                if not (parsed.text or parsed.calls or parsed.refusal) and parsed.finish in ("stop", "empty"):
                    hint = "the conversation may be longer than the model can read"
                    log.warning("model.empty", model=self.name, hint=hint)
                return parsed
            if parsed.is_content_filtered:
                return ModelReply(finish="content_filter", model=self.name)
            if learning < MAX_LESSONS:
                if not is_stripped and is_unreplayable(parsed) and self._drop_provider_details(messages):
                    is_stripped = True
                    continue
                tools = [one["function"]["name"] for one in parse_members(request.extra).get("tools", ())]
                sent = RefusedRequest(request.optional_members, request.streamed, self.api_setting, tools)
                if await self._update_profile(parsed, sent):
                    continue
            if parsed.code == "tool_use_failed":  # Groq: the model wrote an unreadable call
                return ModelReply(finish="unreadable", model=self.name)
            error = build_model_error(parsed, parse_retry_after_s(parsed.headers, self.now()))
            return FailedRequest(error, can_retry_request(parsed))
        raise AssertionError("what cannot be learned ends it")

    @property
    def _owner_tag(self) -> str:
        """Names whose details are sent back: those of this address, model and key, over this API."""
        return f"{self.owner}/{self.profile.api}"

    def _drop_provider_details(self, messages: Sequence[str]) -> bool:
        """Stop sending back the details in these messages. Return whether there were any."""
        details = [one for one in (detach_details(text)[1] for text in messages) if one]
        details = [one for one in details if one not in self.rejected_details]
        self.rejected_details.extend(details)
        if details:
            log.info("model.not_taken_back", model=self.name, replies=len(details))
        return bool(details)

    async def _update_profile(self, refusal: ErrorResponse, request: RefusedRequest) -> bool:
        """Change later requests, as another process has learned or as this refusal says. Return whether anything
        changed."""
        if not can_learn_from(refusal):
            return False
        known = await self._load_profile() or self.profile
        new = learn_from_error(known, refusal, request) or known
        if new == self.profile:
            return False
        self.profile = new
        how, tools = "; ".join(new.summary_lines), sorted(new.refused_tools - known.refused_tools)
        log.info("model.learned", model=self.name, api=new.api, how=how, of=refusal.reason)
        if tools:
            log.error("model.tools_refused", model=self.name, tools=tools, of=refusal.reason)
        with suppress(CountersignError):
            if self.memory is not None:
                record = PROFILE_RECORD.dump_json(new, by_alias=True).decode()
                await self.memory.save_text(self._record_name, record, WEEK_MS)
            if tools and self.report_refused_tools is not None:
                await self.report_refused_tools(tools, refusal.reason)
        return True

    async def _load_profile(self) -> ModelProfile | None:
        """Load the stored profile of this model at this address. Return None if there is none, or if it is unreadable
        or the store cannot be reached."""
        if self.memory is None:
            return None
        with suppress(CountersignError, ValueError):  # the lessons of an unreadable record are learned again
            text = await self.memory.load_text(self._record_name)
            return PROFILE_RECORD.validate_json(text) if text is not None else None
        return None

    @property
    def _record_name(self) -> str:
        """Name of the stored record. Lessons of a fixed API apply to that API only."""
        return f"lessons {self.api_setting} {self.url} {self.name}"


@dataclass(slots=True)
class _ReplyDeadline:
    """The time limit of one reply. Each event of a stream restarts the time of a call, up to a limit."""

    limit: asyncio.Timeout
    timeout_s: float
    first: float
    """The original time limit, by the loop's clock (s)."""
    is_streamed: bool = False
    """Whether the awaited reply is a stream."""

    @property
    def remaining_s(self) -> float:
        return (self.limit.when() or 0.0) - asyncio.get_running_loop().time()

    def extend_deadline(self) -> None:
        if not self.limit.expired():
            last = self.first + (MAX_STREAM_FACTOR - 1) * self.timeout_s
            self.limit.reschedule(min(asyncio.get_running_loop().time() + self.timeout_s, last))
