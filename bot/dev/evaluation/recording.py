"""Recordings of exchanges with a model, one line of JSON each. `ExchangeRecorder` writes them, `read_recording` reads
them, and `ReplayModel` gives their replies again."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TextIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bot.agent.model import ModelReply, detach_details
from bot.core.errors import CountersignError, ModelFailureCause, ModelRejectedError, ModelUnavailableError
from bot.core.i18n import translate
from bot.core.redaction import redact_text
from bot.dev.evaluation.reply_formats import CARD, count_approximate_tokens
from bot.dev.evaluation.scenario import Style
from bot.dev.evaluation.scripted_models import ModelExchange, ScriptExhaustedError, is_probe

TEXT_MAX = 100_000
"""Maximum characters of one text in a line."""
LINE_MAX = 2_000_000
"""Maximum characters of a line, written or read. A longer conversation loses its middle."""
HEAD, TAIL = 4, 60
"""Messages kept from the beginning and from the end of a shortened conversation."""
REFUSED: Mapping[str, type[ModelUnavailableError] | type[ModelRejectedError]] = {
    "down": ModelUnavailableError,
    "refused": ModelRejectedError,
}


class RecordingError(CountersignError):
    """Raised when a recording cannot be used; the message names the file, the line and the problem."""


class RecordedExchange(BaseModel):
    """One line of a recording. Unknown members, which other writers may add, are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    countersign: Literal[1] = 1
    """Version of the format."""
    scenario: str = Field(min_length=1, max_length=200)
    seed: int = 0
    """Number of the repetition."""
    style: str = ""
    """`native`, `text`, `json`, or `auto`: then the style is detected from the replies."""
    step: int = 0
    """Number of the request in its scenario, from 1."""
    messages: tuple[dict[str, Any], ...] = ()
    body: dict[str, Any] = {}
    """Other members of the request: tools, stop sequences."""
    left_out: int = 0
    """Number of messages left out of the middle, because the line would be too long."""
    estimated_in: int = 0
    """Tokens of the whole request, by the same estimate as in a replay."""
    reply: ModelReply | None = None
    failed: Literal["", "down", "refused"] = ""
    """Reason why there is no reply."""
    cause: str = ""
    why: str = ""
    ms: int = 0

    @model_validator(mode="after")
    def _require_outcome(self) -> RecordedExchange:
        if (self.reply is None) == (not self.failed):
            raise ValueError("it needs a reply, or why there was none")
        return self

    @property
    def request_text(self) -> str:
        """The messages of the request as one text."""
        return json.dumps(list(self.messages), ensure_ascii=False) if self.messages else ""


@dataclass
class ExchangeRecorder:
    """Writes each exchange at once, so that Ctrl-C loses nothing that was paid for."""

    file: TextIO
    steps: dict[tuple[str, int], int] = field(default_factory=dict)

    def build_exchange_writer(self, scenario: str, seed: int, style: str) -> Callable[[ModelExchange], None]:
        """Build the function that writes the exchanges of one scenario."""

        def write_exchange(exchange: ModelExchange) -> None:
            step = self.steps[scenario, seed] = self.steps.get((scenario, seed), 0) + 1
            told = {"scenario": scenario, "seed": seed, "style": style, "step": step}
            self.file.write(_format_line({"countersign": 1, **told, **_build_line_members(exchange)}) + "\n")
            self.file.flush()

        return write_exchange


def _build_line_members(exchange: ModelExchange) -> dict[str, Any]:
    """Build the members of a line, without the endpoint's own details (`bot.agent.model`)."""
    texts = [detach_details(one)[0] for one in exchange.messages]
    reply, error = exchange.reply, exchange.error
    told: dict[str, Any] = {
        "messages": json.loads(f"[{','.join(texts)}]"),
        "body": json.loads(f"{{{exchange.extra}}}"),
        "estimated_in": count_approximate_tokens(exchange.extra + ",".join(texts)),
        "ms": round(exchange.ms),
    }
    if reply is not None:
        return {**told, "reply": asdict(replace(reply, provider_details=""))}
    cause = error.cause.value if isinstance(error, (ModelUnavailableError, ModelRejectedError)) else ""
    failed = "down" if isinstance(error, ModelUnavailableError) else "refused"
    return {**told, "reply": None, "failed": failed, "cause": cause, "why": str(error)}


def _format_line(parts: dict[str, Any]) -> str:
    """Format a line, redacted and bounded. If it is too long, the middle of the conversation is left out, and after
    that the body."""
    some, text = parts["messages"], _dump_redacted(_limit_texts(parts))
    for tail, body in ((TAIL, parts["body"]), (1, {})):
        if len(text) <= LINE_MAX:
            break
        kept = [*some[:HEAD], *some[HEAD:][-tail:]]
        left_out = len(some) - len(kept)
        text = _dump_redacted(_limit_texts({**parts, "messages": kept, "body": body, "left_out": left_out}))
    return text


def _dump_redacted(parts: Any) -> str:
    return redact_text(json.dumps(parts, ensure_ascii=False), addresses=False)


def _limit_texts(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else f"{value[:TEXT_MAX]}… [cut: {len(value)} characters]"
    if isinstance(value, dict):
        return {name: _limit_texts(one) for name, one in value.items()}
    return [_limit_texts(one) for one in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Recording:
    """All exchanges of a file in order, by scenario and repetition."""

    exchanges: Mapping[tuple[str, int], Sequence[RecordedExchange]]

    @property
    def scenarios(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.exchanges)

    def detect_style(self, scenario: str, seed: int) -> Style:
        """Return the style in which the replies are written."""
        some = self.exchanges[scenario, seed]
        told = some[0].style
        if told in ("native", "text", "json"):
            return told  # type: ignore[return-value]
        if any("tools" in one.body for one in some):
            return "native"
        begun = [one.reply.text.lstrip() for one in some if one.reply]
        return "json" if any(one.startswith(("{", "```json")) for one in begun) else "text"


def read_recording(file: Path, language: str) -> Recording:
    """Read a recording. Raises RecordingError."""
    found: dict[tuple[str, int], list[RecordedExchange]] = {}
    try:
        with file.open(encoding="utf-8") as lines:
            for one in _parse_exchanges(lines, file, language):
                found.setdefault((one.scenario, one.seed), []).append(one)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "UTF-8"
        raise RecordingError(translate("evaluation.recording_unreadable", language, file=file, why=why)) from error
    if not found:
        raise RecordingError(translate("evaluation.recording_empty", language, file=file))
    return Recording(found)


def _parse_exchanges(lines: TextIO, file: Path, language: str) -> Iterator[RecordedExchange]:
    number = 0
    while text := lines.readline(LINE_MAX + 2):
        number += 1
        if not text.strip():
            continue
        try:
            yield RecordedExchange.model_validate(json.loads(text))
        except ValidationError as error:
            wrong = error.errors(include_url=False)[0]
            why = f"{'.'.join(map(str, wrong['loc']))} {wrong['msg']}".strip()
            raise RecordingError(
                translate("evaluation.recording_foreign", language, file=file, line=number, why=why)
            ) from error
        except (ValueError, RecursionError) as error:
            key = "recording_foreign" if text.endswith("\n") else "recording_torn"
            raise RecordingError(
                translate(f"evaluation.{key}", language, file=file, line=number, why=str(error)[:120])
            ) from error


@dataclass
class ReplayModel:
    """A model that gives the recorded replies in order, whatever the request is.

    Card ids are new in each run. The order of their first appearance maps a recorded id to a current one."""

    recorded: deque[RecordedExchange]
    missing_replies: int = 0
    """Number of requests after the recording's end."""
    recorded_card_ids: list[str] = field(default_factory=list)
    current_card_ids: list[str] = field(default_factory=list)
    """Card ids in the requests, in the order of their first appearance."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        if is_probe(messages):
            return ModelReply(text="Hello!")
        _append_new_ids(CARD.findall("\n".join(messages)), self.current_card_ids)
        if not self.recorded:
            self.missing_replies += 1
            raise ScriptExhaustedError("the recording has ended")
        one = self.recorded.popleft()
        _append_new_ids(CARD.findall(one.request_text), self.recorded_card_ids)
        if one.reply is None:
            cause = ModelFailureCause(one.cause) if one.cause in set(ModelFailureCause) else ModelFailureCause.REQUEST
            raise REFUSED[one.failed](f"recorded: {one.why}", cause=cause)
        said, tokens_in = one.reply, count_approximate_tokens(extra + ",".join(messages))
        calls = tuple(replace(call, arguments=self._replace_card_ids(call.arguments)) for call in said.calls)
        written = said.tokens_out or count_approximate_tokens(said.text + "".join(call.arguments for call in calls))
        return ModelReply(self._replace_card_ids(said.text), calls, said.finish, said.refusal, tokens_in, 0, written)

    def _replace_card_ids(self, text: str) -> str:
        """Replace recorded card ids by the current ones."""
        names = dict(zip(self.recorded_card_ids, self.current_card_ids, strict=False))
        return CARD.sub(lambda id: names.get(id[0], id[0]), text)


def _append_new_ids(ids: Iterable[str], seen: list[str]) -> None:
    seen.extend(id for id in dict.fromkeys(ids) if id not in seen)
