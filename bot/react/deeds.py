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
    done: re.Pattern[str]
    """The words as they tell of something finished."""
    words: re.Pattern[str]

    def claimed(self, clause: str) -> bool:
        return self.done.search(clause) is not None

    def known(self, source: str) -> bool:
        return self.words.search(source) is not None


def make_deed(tools: frozenset[str], zh: str, en: str) -> Deed:
    """`zh`, `en`: the words for it, with `|` between."""
    before, after = r"(?:已经?[^,。;!?\n]{0,24}?|成功)", "(?:了|成功|好了)"
    done = rf"{before}(?:{zh})|(?:{zh}){after}|\b(?:{en})\b"
    return Deed(tools, re.compile(done, re.I), re.compile(rf"{zh}|\b(?:{en})\b", re.I))


DEEDS = (
    make_deed(frozenset({"send_email"}), "发送|发出|发给|寄出|寄给|发了", "sent|e?-?mailed"),
    make_deed(
        frozenset({"start_process", "resubmit_request"}), "提交|发起|递交", "submitted|resubmitted|started|filed"
    ),
    make_deed(frozenset({"decide_task", "start_process", "withdraw_request"}), "批准|通过|同意", "approved|passed"),
    make_deed(frozenset({"decide_task"}), "驳回|拒绝|退回", "rejected|declined|returned"),
    make_deed(frozenset({"withdraw_request"}), "撤回|撤销", "withdrawn|withdrew|revoking"),
    make_deed(frozenset({"cancel_card", "withdraw_request", "end_absence"}), "取消", "cancell?ed"),
    make_deed(frozenset({"transfer_task"}), "转交|转给", "transferred"),
    make_deed(frozenset({"add_sign"}), "加签", "added"),
    make_deed(frozenset({"urge_task", "send_email"}), "催办|催了|提醒", "urged|reminded"),
    make_deed(frozenset({"comment_request"}), "评论|留言", "commented"),
    make_deed(frozenset({"cc_request"}), "抄送", "copied"),
    make_deed(frozenset({"set_absence"}), "委托", "delegated"),
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
