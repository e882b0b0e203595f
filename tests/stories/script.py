"""Replies of a scripted model, and counts of hidden state."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from redis.asyncio import Redis

from bot.agent.model import Messages, ModelReply, RawToolCall
from tests.harness.office import LI
from tests.harness.scripted_model import ScriptedModel
from tools.workflow.engine.store import RedisStore

DONE = ModelReply(text="好的。")
MAIL = {"to": "李四", "subject": "项目进度", "body": "李四你好，请看一下进度。"}
CLAIM = {"amount": "500", "currency": "CNY", "category": "travel", "reason": "去上海开会", "approver": "李四"}
ASKED = "我肚子疼，从明天起请10天假"
DAYS = {"start_date": "2026-11-24", "end_date": "2026-12-03"}
LEAVE_FORM = {"leave_type": "sick", **DAYS, "reason": "肚子疼", "approver": "李四"}


def calls(*wanted: tuple[str, Mapping[str, Any]], first: int = 0, finish: str = "tool_calls") -> ModelReply:
    """Tool calls as a model writes them; ids count from `first`."""
    return ModelReply(
        calls=tuple(
            RawToolCall(f"call_{first + n}", tool, json.dumps({"reason": "照您说的做", **args}, ensure_ascii=False))
            for n, (tool, args) in enumerate(wanted)
        ),
        finish=finish,
    )


def open_cards(messages: Messages, tool: str = "") -> list[str]:
    """Return the ids of the open cards that a model is told of, of one tool or of all."""
    told = [str(one["content"]) for one in messages if str(one["content"]).startswith("<cards ")]
    lines = [line[2:].split(" ") for one in told for line in one.splitlines() if line.startswith("- ")]
    return [name.rstrip(":") for name, called, *_ in lines if tool in ("", called)]


def mail(**changes: Any) -> ModelReply:
    return calls(("send_email", {**MAIL, **changes}))


def expense(**changes: str) -> ModelReply:
    return calls(("start_process", {"process": "expense", "form": {**CLAIM, **changes}}))


def raw(tool: str, arguments: str, finish: str = "tool_calls") -> ModelReply:
    """One call with its arguments exactly as written."""
    return ModelReply(calls=(RawToolCall("call_0", tool, arguments),), finish=finish)


async def requests_of(redis: Redis, person: str) -> list[str]:
    """List the requests that the engine keeps of a person, oldest first."""
    return [request for request, _ in await RedisStore(redis).list_members("mine", person)]


class AskingModel(ScriptedModel):
    """A model that asks who shall approve, and starts the leave when somebody is named."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        if ASKED in messages[-1]:
            return ModelReply(text="明白了，只差审批人。\n请谁审批？")
        return calls(("start_process", {"process": "leave", "form": LEAVE_FORM})) if LI in messages[-1] else DONE
