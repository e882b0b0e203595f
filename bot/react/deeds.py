"""What an answer says was done. Pure.

Only what is put as a finished fact counts: *已发送*, *sent*; no question, refusal, condition or plan. A wrong alarm
does no harm: what it adds to the receipt is true of every answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from bot.react.evidence import clauses, open_ended


@dataclass(frozen=True, slots=True)
class Deed:
    """A kind of effect: who has it, and the words for it."""

    tools: frozenset[str]
    zh: str
    en: str

    def claimed(self, clause: str) -> bool:
        before, after = r"(?:已经?[^,。;!?\n]{0,24}?|成功)", "(?:了|成功|好了)"
        done = rf"{before}(?:{self.zh})|(?:{self.zh}){after}|\b(?:{self.en})\b"
        return re.search(done, clause, re.I) is not None

    def known(self, source: str) -> bool:
        return re.search(rf"{self.zh}|\b(?:{self.en})\b", source, re.I) is not None


DEEDS = (
    Deed(frozenset({"send_email"}), "发送|发出|发给|寄出|寄给|发了", "sent|e?-?mailed"),
    Deed(frozenset({"start_process", "resubmit_request"}), "提交|发起|递交", "submitted|resubmitted|started|filed"),
    Deed(frozenset({"decide_task", "start_process", "withdraw_request"}), "批准|通过|同意", "approved|passed"),
    Deed(frozenset({"decide_task"}), "驳回|拒绝|退回", "rejected|declined|returned"),
    Deed(frozenset({"withdraw_request"}), "撤回|撤销", "withdrawn|withdrew|revoking"),
    Deed(frozenset({"cancel_card", "withdraw_request", "end_absence"}), "取消", "cancell?ed"),
    Deed(frozenset({"transfer_task"}), "转交|转给", "transferred"),
    Deed(frozenset({"add_sign"}), "加签", "added"),
    Deed(frozenset({"urge_task", "send_email"}), "催办|催了|提醒", "urged|reminded"),
    Deed(frozenset({"comment_request"}), "评论|留言", "commented"),
    Deed(frozenset({"cc_request"}), "抄送", "copied"),
    Deed(frozenset({"set_absence"}), "委托", "delegated"),
)


def overclaims(answer: str, done: Collection[str], results: Callable[[], Iterable[str]]) -> bool:
    """True when `answer` says that something was done which neither a tool that has had its effect (`done`, by name)
    nor any of the `results` (observations, receipts) speaks of. `results` is asked only if something is claimed."""
    told = told_as_fact(answer)
    claimed = [deed for deed in DEEDS if any(map(deed.claimed, told)) and deed.tools.isdisjoint(done)]
    if not claimed:
        return False
    sources = list(results())
    return any(not any(map(deed.known, sources)) for deed in claimed)


def told_as_fact(text: str) -> list[str]:
    """The clauses that say of something that it was done."""
    facts = (clause for clause in clauses(text) if not open_ended(clause))
    return [clause for clause in facts if any(deed.claimed(clause) for deed in DEEDS)]
