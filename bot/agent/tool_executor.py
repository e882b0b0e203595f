"""Executes the calls of a reply. Reading calls run, gated ones become proposals for cards, and every error becomes a
result.

A proposal shows on its card what will be executed. Invisible characters are removed from the values that a tool of ours
stores and executes. The card says how many were removed, and from what. Tools of servers get their arguments unchanged,
and their cards show them with escapes."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bot.agent.model import ToolCallRequest
from bot.agent.tool_search import NOT_READ, ToolSelector, add_card_to_error
from bot.core import logs
from bot.core.clock import Clock
from bot.core.errors import CountersignError
from bot.core.i18n import load_sentences, translate_label
from bot.core.redaction import redact_known_secrets
from bot.core.run_state import CallRecord, CallStatus, fingerprint_call, validate_args
from tools.cards.fields import FIELD_PREFIX, describe_new_request
from tools.characters import count_cleaned, show_invisible
from tools.error_advice import ADVICE
from tools.spec import CardField, Gate, Privacy, Proposal, ReceiptLine, TextRef, ToolError, ToolOutcome
from tools.tool import Tool, ToolContext, name_arguments

log = logs.get_logger(__name__)

OBSERVATION_MAX = 6_000
"""Characters of one observation in the prompt. Tools page well below this limit."""
MAX_NAMES = 6
"""Most names of changed values in the note of a proposal."""

CALL_MISTAKES = frozenset(
    {
        *("bad_arguments", "unknown_tool", "not_offered", "one_at_a_time", "unknown_field", "unknown_process"),
        *("missing_field", "bad_choice", "bad_date", "bad_number", "bad_days"),
    }
)
"""Errors of the call itself. The journal has them, and the model fixes them or asks. People do not see them."""
ERROR_MAX = 300
"""Characters of an error in the journal."""

ToolResult = ToolOutcome | Proposal | ToolError
ProposalCheck = Callable[[str, Proposal], Awaitable[None]]
"""Checks a tool's proposal before it gets a card. Raises `ToolError` if it must not get one."""


@dataclass(slots=True)
class ReadCache:
    """Results of reads since the run began, or continued after a button. A read with the same arguments is not
    repeated."""

    results: dict[str, ToolOutcome | Proposal] = field(default_factory=dict)
    locks: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """One lock for each read, so that only one of several identical calls in a reply does the read."""
    called_lines: dict[str, ReceiptLine] = field(default_factory=dict)
    """Tool → receipt line, of the calls that the present step has begun without a press."""


@dataclass(frozen=True, slots=True)
class ToolExecutor:
    """Turns a call of one of a loop's tools into a result."""

    selector: ToolSelector
    reraised: tuple[type[Exception], ...] = (CountersignError,)
    """As in `bot.agent.loop.AgentLoop`."""
    clock: Clock = field(default_factory=Clock)
    """Clock that stamps results."""

    async def execute_call(
        self,
        context: ToolContext,
        reads: ReadCache,
        uid: str,
        request: ToolCallRequest,
        *,
        refuse_gated: bool,
        offered: Collection[str],
        check_proposal: ProposalCheck | None = None,
    ) -> tuple[CallRecord, ToolResult]:
        """Execute one call: run it if it reads, propose it if it is gated. Errors become results, even unexpected ones.
        Only `reraised` exceptions pass. `offered` are names of the tools whose cards the model has read."""
        result: ToolResult
        tool = self.selector.find_tool(request.tool)
        if tool is not None and not tool.server:
            request = replace(request, args=name_arguments(tool.schema.get("properties", {}), request.args))
        name, stored_args = request.tool, request.args
        if tool is not None and tool.alias_of is not None:
            name, stored_args = tool.alias_of.tool, tool.alias_of.to_args(request.args)
        try:
            if tool is None:
                known = ", ".join(offered)
                raise ToolError("unknown_tool", f"There is no tool {request.tool[:60]!r}. Tools: {known}.")
            if tool.server and tool.name not in offered:
                raise ToolError("not_offered", NOT_READ)
            result = await self._run_with_cache(tool, context, reads, request, held=refuse_gated)
            if isinstance(result, Proposal) and check_proposal is not None:
                await check_proposal(name, result)
        except ToolError as error:
            result = error
            if tool is not None and tool.name not in offered and error.code in ("bad_arguments", "not_offered"):
                add_card_to_error(tool, error)
        except self.reraised:
            raise
        except Exception as error:
            # A bug in a tool is one observation, not the end of the run.
            log.exception("tool.broken", tool=request.tool[:60], uid=uid)
            result = ToolError("tool_failed", f"{request.tool[:60]} did not work ({type(error).__name__}).")
        status = CallStatus.AWAITING if isinstance(result, Proposal) else CallStatus.SUCCEEDED
        status = CallStatus.FAILED if isinstance(result, ToolError) else status
        args = result.args if isinstance(result, Proposal) else stored_args
        call = CallRecord(
            uid=uid, tool=name, args=args, reason=request.reason, status=status, model_id=request.model_id
        )
        return (call if isinstance(result, Proposal) else replace(call, ended_ms=self.clock.now_ms())), result

    async def _run_with_cache(
        self, tool: Tool, context: ToolContext, reads: ReadCache, request: ToolCallRequest, *, held: bool
    ) -> ToolOutcome | Proposal:
        """Return the call's result, or the cached result of an equal read in this run. The cache is cleared before an
        uncached tool runs, because that tool may change what others read."""
        if not tool.is_cacheable:
            reads.results.clear()
        if tool.gate is not Gate.NONE or not tool.is_cacheable:
            return await self._run_or_propose(tool, request, context, reads, held=held)
        key = fingerprint_call(request.tool, request.args)
        async with reads.locks[key]:
            if key not in reads.results:
                reads.results[key] = await self._run_or_propose(tool, request, context, reads, held=held)
            return reads.results[key]

    async def _run_or_propose(
        self, tool: Tool, request: ToolCallRequest, context: ToolContext, reads: ReadCache, *, held: bool
    ) -> ToolOutcome | Proposal:
        if tool.gate is Gate.NONE:
            args = validate_args(tool.args, request.args)
            reads.called_lines |= {tool.name: tool.called_line} if tool.called_line else {}
            return await tool.run(context, args)
        if not request.reason:
            raise ToolError("bad_arguments", "`note` is missing: say in one short sentence why.")
        if held:
            raise ToolError(
                "one_at_a_time", "Not run: only one [card] call per reply. Call it again now if it is still wanted."
            )
        return await propose_call(tool, context, request.args)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """One finished or waiting call, for people who follow the run."""

    call: CallRecord
    note: TextRef
    title: TextRef | None = None
    """The action that a waiting call proposes, in the words of its card."""
    ready: TextRef | None = None
    """The dates, sums and approver of a proposed request, for places that may read its free text."""
    people: tuple[str, ...] = ()
    """Ids of the people that a name may mean, if the person has to choose."""
    privacy: Privacy = Privacy.PRIVATE
    """Privacy of the call's result, or of the data that the run had seen before."""
    error: str = ""
    """Error code, if it failed."""
    error_message: str = ""
    """The error message that the model got. Only administrators see it."""
    receipt_line: ReceiptLine | None = None
    """The action that the call did, or may have done, without a press."""


def build_step(call: CallRecord, result: ToolResult, caller: str) -> RunStep:
    """Describe a call in the words of its card or its result. A reader who does not decide gets a card title of their
    own."""
    if isinstance(result, ToolError):
        return RunStep(
            call=call,
            note=result.note,
            people=result.people,
            error=result.code,
            error_message=result.text[:ERROR_MAX],
            receipt_line=result.maybe,
        )
    if not isinstance(result, Proposal):
        return RunStep(call=call, note=result.summary, receipt_line=result.receipt_line)
    key = "steps.waiting" if caller in result.deciders else "steps.brought"
    title = result.get_title_for(caller)
    return RunStep(call=call, note=TextRef(key=key), title=title, ready=describe_new_request(result))


async def propose_call(tool: Tool, context: ToolContext, args: Mapping[str, Any]) -> Proposal:
    """Build the proposal of a gated call, with a note on what was removed from its arguments. Raises `ToolError`, also
    if a tool of ours would store something that its card cannot show unchanged."""
    if tool.prepare is None:  # fail closed: a call that cannot be shown is not run
        raise ToolError("tool_failed", f"{tool.name} needs a button and has no card.")
    proposal = await tool.prepare(context, validate_args(tool.args, args))
    if tool.server:
        return proposal
    if left := _count_removed_by_name(proposal.args):
        name = next(iter(left))
        raise ToolError("bad_arguments", f"{name} has characters that nobody can see", field=name)
    if not (removed := _count_removed_by_name(args)):
        return proposal
    fields = [field for choice in proposal.choices for field in choice.fields]
    labels: dict[str, str | dict[str, str]] = {
        one.name.removeprefix(FIELD_PREFIX): one.label for one in reversed(fields) if one.name.startswith(FIELD_PREFIX)
    }
    names: dict[str, list[str]] = {"zh": [], "en": []}
    for name in list(removed)[:MAX_NAMES]:
        label = labels.get(name, name)
        is_known = not isinstance(label, str) or f"label.{label}" in load_sentences()
        for language, several in names.items():
            several.append(translate_label(label, language) if is_known else str(label))
    listed = {"zh": "、".join(names["zh"]), "en": ", ".join(names["en"])}
    note = TextRef(key="fact.removed", params={"n": sum(removed.values()), "from": listed})
    return proposal.with_card_fields((*proposal.fields, CardField(label="invisible", value=note)))


def _count_removed_by_name(args: Mapping[str, Any]) -> Counter[str]:
    """Count removed characters by the innermost name of their value."""
    counts = Counter[str]()
    for name, text in _walk_texts("", args):
        if count := count_cleaned(text):
            counts[name] += count
    return counts


def _walk_texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _walk_texts(str(key).removeprefix(FIELD_PREFIX), one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _walk_texts(name, one)


def format_observation(result: ToolOutcome | ToolError, tool: Tool | None = None) -> str:
    """Format an observation for the model, as bounded JSON. An error comes with the advice of its tool's card, or else
    with the common advice."""
    if isinstance(result, ToolError):
        told = [tool.errors.get(one.code) or ADVICE.get(one.code, "") for one in result.errors] if tool else []
        advice = " ".join(dict.fromkeys(filter(None, told)))
        more = {**({"do": advice} if advice else {}), **({"ask_the_person": True} if result.ask else {})}
        return format_bounded_json({"error": result.code, "message": result.text, **more})
    return format_bounded_json(result.data)


def format_bounded_json(data: dict[str, Any]) -> str:
    text = redact_known_secrets(show_invisible(json.dumps(data, ensure_ascii=False)))
    return text if len(text) <= OBSERVATION_MAX else text[:OBSERVATION_MAX] + "… [cut: ask for less, or the next page]"
