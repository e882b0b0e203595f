"""Renders the history for a model: the calls and results of the latest runs in the current run's reply format, older
calls as a line each, and events. Lines and events are quoted in the user role, which no answer has."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any

from bot.agent import prompt
from bot.agent.decision import ReplyFormat, ToolCallRequest, ToolCalls
from bot.core.history_entries import EntryKind, HistoryEntry, HistoryMessage
from bot.core.redaction import shorten_private_text
from bot.core.run_state import CallStatus, RunState

EVENT_MAX = 300
"""Most characters of a line of an event."""
EVENT, CALLED = "<event ", '<event kind="calls" '
"""The start of the messages that contain events, and of those that contain calls."""
_CALLED_JSON = json.dumps(CALLED)[1:-1]
WAITING_RESULT = "a card waits for its button"
"""The result in the line of a call that waits, or waited when the line was written."""
NOT_VERIFIED = "not verified: "
"""The start of the event line with the unsupported parts of the answer before it."""
NON_RESULT_ROLES = ("assistant", "system", "developer")
"""Roles of a run's messages that hold no result of a call."""
_OBSERVED = re.compile(r"\AObservation(?: [^\s:]{1,64}+)?: ")


def format_history(sent: Sequence[HistoryMessage], style: ReplyFormat) -> list[str]:
    """Format messages (JSON) in a reply format. A call that has waited and ended since is told by its ending alone."""
    messages, later_lines = list[str](), list[str]()
    for one in reversed(sent):
        for call in reversed(one.calls or ()):
            model_id = hashlib.sha256(call.uid.encode()).hexdigest()[:9]  # some endpoints take no longer ids
            act = ToolCalls((ToolCallRequest(model_id=model_id, tool=call.tool, args=call.args, reason=call.reason),))
            pair = style.build_assistant_message(act), style.build_tool_message(model_id, call.result)
            messages += [json.dumps(message, ensure_ascii=False) for message in reversed(pair)]
        if one.calls is not None:
            continue
        message = one.message
        content = str(json.loads(message)["content"]) if _CALLED_JSON in message else ""
        if content.startswith(CALLED):
            head, *lines, end = content.split("\n")
            kept = [
                line
                for line in lines
                if (begun := line.removesuffix(WAITING_RESULT)) == line
                or not any(later.startswith(begun) for later in later_lines)
            ]
            later_lines += kept
            whole = {"role": "user", "content": "\n".join((head, *kept, end))}
            message = json.dumps(whole, ensure_ascii=False) if kept else ""
        if message:
            messages.append(style.format_history_message(message))
    return messages[::-1]


# Results


def list_call_results(state: RunState) -> list[str]:
    """Return the result of each call of a run, found by the model's id if messages have one, otherwise by order. The
    result of a waiting call is empty."""
    result_messages = [one for one in map(json.loads, state.messages[1:]) if one.get("role") not in NON_RESULT_ROLES]
    results = list[str]()
    for call in state.calls:
        ended = call.status is not CallStatus.AWAITING
        index = next(
            (i for i, one in enumerate(result_messages) if one.get("tool_call_id", call.model_id) == call.model_id),
            None,
        )
        results.append(parse_observation(result_messages.pop(index)) if ended and index is not None else "")
    return results


def parse_observation(message: dict[str, Any]) -> str:
    """Return a tool's result, without the prefix of its reply format."""
    return _OBSERVED.sub("", str(message.get("content") or ""), count=1)


# Events


def build_event_entry(text: str, at_ms: int, zone: tzinfo, *, run: str = "", said: str | None = None) -> HistoryEntry:
    """Build the history entry of an event: quoted data with its time."""
    told = "\n".join(shorten_private_text(line, EVENT_MAX) for line in text.splitlines() if line.strip())
    return _build_quoted_entry(EVENT, told, EntryKind.EVENT, at_ms, zone, run, told if said is None else said)


def build_calls_entry(
    lines: Sequence[str], at_ms: int, zone: tzinfo, *, run: str, said: str | None = None
) -> HistoryEntry:
    """Build the history entry of a run's calls, one line each."""
    return _build_quoted_entry(CALLED, "\n".join(lines), EntryKind.CALLS, at_ms, zone, run, said)


def _build_quoted_entry(
    head: str, told: str, kind: EntryKind, at_ms: int, zone: tzinfo, run: str, shown_text: str | None
) -> HistoryEntry:
    at = prompt.format_minute(datetime.fromtimestamp(at_ms / 1000, zone))
    content = f'{head}at="{at}">\n{prompt.escape_tags(told)}\n</event>'
    return replace(HistoryEntry.from_content("user", content, run=run, said=shown_text, at_ms=at_ms), kind=kind)
