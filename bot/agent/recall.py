"""Renders the history for a model: the calls and results of the latest runs in the current run's reply format, older
calls as a line each, and events. Lines and events are quoted in the user role, which no answer has. Remembered calls
are independent of the reply format and bounded."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bot.agent.model import ReplyFormat, ToolCallRequest, ToolCalls
from bot.agent.prompt import CALLED, dump_message
from bot.agent.request_numbers import IDENTIFIER
from bot.agent.tool_executor import CALL_MISTAKES
from bot.agent.tool_search import FIND
from bot.core.history_entries import HistoryMessage, PastCall
from bot.core.i18n import shorten_text
from bot.core.redaction import redact_known_secrets, shorten_private_text
from bot.core.run_state import CallRecord, CallStatus, RunState
from tools.requests.processes import START_PROCESS
from tools.requests.start_tools import START
from tools.think.tool import THINK
from tools.tool import Tool, name_arguments

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
            message = dump_message("user", "\n".join((head, *kept, end))) if kept else ""
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


# Remembered calls

FindTool = Callable[[str], Tool | None]

MAX_CALLS = 6
"""Most remembered calls of a run. The latest are kept."""
MAX_RESULT, MAX_ARGUMENT, MAX_ARGUMENTS = 1_200, 240, 800
"""Remembered characters of a result, of one argument, and of all arguments of a call."""
MAX_LINE, MAX_LINE_ARGUMENTS, MAX_IDS = 160, 120, 8
"""Characters of a result and of the arguments in a line, and most request numbers kept after them."""
WAITING = '{"status": "waiting", "message": "A card is there and waits for its button. Nothing has happened yet."}'
CUT = "… [cut]"
UNREMEMBERED_TOOLS = frozenset({THINK.name, FIND})
"""Tools whose results say nothing about the company's business."""


def list_latest_calls(state: RunState, remembered_uids: Sequence[str]) -> list[tuple[CallRecord, str]]:
    """Return the latest calls of a run that are worth remembering, each with its result. Calls in `remembered_uids` and
    calls that the model only made wrongly are left out."""
    calls = [
        (call, result)
        for call, result in zip(state.calls, list_call_results(state), strict=True)
        if call.uid not in remembered_uids
        and call.tool not in UNREMEMBERED_TOOLS
        and not (
            call.status is CallStatus.FAILED
            and not call.approval
            and parse_result_object(result).get("error") in CALL_MISTAKES
        )
    ]
    return calls[-MAX_CALLS:]


def name_offered_call(find_tool: FindTool, tool: str, args: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the tool and the arguments of a stored call by the names that models are offered, without values that the
    program has added and without empty values."""
    form, start = args.get("form"), f"{START}{args.get('process')}"
    if tool == START_PROCESS.name and isinstance(form, dict) and find_tool(start):
        tool, args = start, form
    found = find_tool(tool)
    if found is None or found.server:
        return tool, dict(args)
    offered = found.schema.get("properties", {})
    return tool, {name: one for name, one in name_arguments(offered, args).items() if name in offered and one != ""}


def build_past_call(call: CallRecord, result: str) -> PastCall:
    """Build the remembered form of a call: bounded, without known secrets."""
    text = WAITING if call.status is CallStatus.AWAITING else result
    text = text if len(text) <= MAX_RESULT else text[:MAX_RESULT] + CUT
    args = {name: _shorten_argument(value) for name, value in call.args.items()}
    args = args if len(json.dumps(args, ensure_ascii=False)) <= MAX_ARGUMENTS else {}
    return PastCall(call.uid, call.tool, args, call.reason, call.status.value, text)


def _shorten_argument(value: Any) -> Any:
    """Return an argument, bounded and without secrets."""
    if isinstance(value, str):
        text = redact_known_secrets(value)
        return text if len(text) <= MAX_ARGUMENT else text[:MAX_ARGUMENT] + CUT
    if isinstance(value, dict):
        return {name: _shorten_argument(one) for name, one in value.items()}
    return [_shorten_argument(one) for one in value] if isinstance(value, list) else value


def format_call_line(call: PastCall, whole: str) -> str:
    """Format a call on one line: arguments, ending, and the beginning of its `whole` result, with the request numbers
    further on in it."""
    arguments = shorten_text(
        ", ".join(f"{name}={shorten_private_text(str(one), 40)}" for name, one in call.args.items()), MAX_LINE_ARGUMENTS
    )
    ending = "" if call.status == CallStatus.SUCCEEDED else f"{call.status}: "
    if call.status == CallStatus.AWAITING:
        return f"{call.tool}({arguments}) → {WAITING_RESULT}"
    text = " · ".join(_walk_leaves(parse_result_object(whole))) or whole
    told = shorten_private_text(text, MAX_LINE)
    more = [one for one in dict.fromkeys(found[0] for found in IDENTIFIER.finditer(whole)) if one not in told]
    return " ".join([f"{call.tool}({arguments}) → {ending}{told}", *more[:MAX_IDS]])


def parse_result_object(text: str) -> dict[str, Any]:
    """Parse the result of a call. Return an empty object if it was cut."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {"": value}


def _walk_leaves(value: Any, name: str = "", depth: int = 8) -> Iterator[str]:
    """Yield the words and numbers of a value. Numbers come with their names."""
    if isinstance(value, dict) and depth:
        for key, one in value.items():
            yield from _walk_leaves(one, key, depth - 1)
    elif isinstance(value, list) and depth:
        for one in value:
            yield from _walk_leaves(one, name, depth - 1)
    elif value not in ("", None):
        yield value if isinstance(value, str) else f"{name} {json.dumps(value, ensure_ascii=False)}"
