"""A well-meaning model that slips: a scenario's script with the mistakes of mid-range models, drawn by a seed.

A slip may take the place of each reply, which is then given later. When the model is told what was wrong, it gives the
right reply or slips once more. A slip that nobody notices goes out, and the scenario's people wait as real ones would.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.agent.model import ModelReply
from bot.dev.evaluation.reply_formats import build_styled_reply, list_calls
from bot.dev.evaluation.results import ModelSlip
from bot.dev.evaluation.runner import GATED
from bot.dev.evaluation.scenario import ScenarioCall, ScenarioReply
from bot.dev.evaluation.scripted_models import ScenarioScriptModel, is_probe
from bot.features.grounding.feature import RULES
from tools.catalog import TOOLS

RATE, AGAIN = 0.25, 0.1
"""Probability of a slip in place of a reply, and right after the model was told of a slip."""
ANSWER = "answer"
"""`instead` of a slip that replaced an answer."""
PERSON = "<message from="
"""Start of a person's message, as models get it."""
PROSE = {
    "zh": ("好的，我需要调用 {tool} 来处理这件事。", "{tool}({args})", "接下来应该调用工具 {tool}。"),
    "en": ("I need to call {tool} for this.", "{tool}({args})", "The next step is to use the {tool} tool."),
}
ANNOUNCED = {
    "zh": (
        *("我这就提交，请稍等。", "好的，我马上为您处理。", "正在为您办理，请稍候…", "让我先查一下。"),
        *("稍等，我看一下。", "好的，我来帮您处理。", "我现在就去办。"),
    ),
    "en": (
        *("I'll submit it right away, one moment please.", "Let me check that for you.", "One moment, I'm on it."),
        *("Sure, I will take care of it now.", "I'm going to look into it.", "Submitting it now…"),
    ),
}
CLAIMED = {
    "started": {
        "zh": "申请已经提交成功，请等待审批。",
        "en": "Your request has been submitted and is waiting for approval.",
    },
    "mailed": {"zh": "邮件已经发送给对方了。", "en": "The mail has been sent."},
    "approved": {"zh": "已经帮您批准了。", "en": "I have approved it for you."},
    "withdrawn": {"zh": "申请已经撤回了。", "en": "The request has been withdrawn."},
    "": {"zh": "已经帮您办好了。", "en": "All done, it has been taken care of."},
}
"""Effect → words that claim it; at the end, words that fit any."""
DEEDS = {tool.name: kind for tool in TOOLS for kind in [*tool.effects.values()][::-1] if kind in CLAIMED}
"""Tool → the first of its effects that there are words for."""
RECEIPTS = {
    "zh": ("[waiting for a button: {tool}]", "好的，已为您处理。\n[系统记录：发起了请假申请 L-0001]"),
    "en": ("[waiting for a button: {tool}]", "Done.\n[On record: started leave request L-0001]"),
}
FINE = {"zh": "好的。", "en": "All right."}
"""Answers after the script's end."""
KEYS: Mapping[str, str] = {
    "process": "leave_request",
    "task": "TASK-001",
    "request": "REQ-001",
    "card": "card_1",
    "to": "user_123",
    "person": "user_123",
    "deputy": "user_123",
}
"""Values that are guessed instead of looked up."""
NAMES: Mapping[str, str] = {
    "leave_type": "type",
    "start_date": "from",
    "end_date": "to",
    "category": "kind",
    "reason": "description",
    "subject": "title",
}
"""Field → wrong name that is used for it."""
Made = Callable[[ScenarioCall], ScenarioReply | None]


@dataclass
class SlippingModel:
    """Slipping implementation of the model's port."""

    script: ScenarioScriptModel
    language: str
    seed: str
    slips: list[ModelSlip] = field(default_factory=list)
    chance: random.Random = field(init=False)
    previous_call: ScenarioCall | None = None
    """Last right call."""
    last_answer: str = ""
    """Last right answer."""
    person_message: str = ""
    """Message of the person in this run."""
    is_open: bool = False
    """Whether the last reply was a slip whose outcome is not known yet."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311  (it has to be repeatable)

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        if is_probe(messages):
            return ModelReply(text="Hello!")
        some = json.loads(f"[{','.join(messages)}]")
        is_correction = bool(some) and some[0].get("content") == RULES
        is_told = is_correction or self._find_person_message(some) == self.person_message
        if self.is_open and is_told:
            self.slips[-1] = self.slips[-1].model_copy(update={"mended": True})
        elif self.is_open and self.slips[-1].instead == ANSWER and self.slips[-1].kind == "imitates":
            self._take_right_reply()  # the answer went out, with a false line under it
        was_slip, self.is_open = self.is_open, False
        if is_correction:
            # It asks whether the claim is true. `CALL` makes the call.
            following = self.script.peek_reply()
            if was_slip and following is not None:
                if not following.say:
                    return ModelReply(text="CALL")
                self._take_right_reply()
            return ModelReply(text=self.last_answer or FINE[self.language])
        self.person_message = self._find_person_message(some)
        one = self._draw_slip(AGAIN if was_slip and is_told else RATE) or self._take_right_reply()
        return build_styled_reply(one, self.script.style, messages, extra)

    def _find_person_message(self, messages: Sequence[Mapping[str, Any]]) -> str:
        said = (str(one.get("content") or "") for one in reversed(messages))
        return next((text for text in said if text.startswith(PERSON)), "")

    def _take_right_reply(self) -> ScenarioReply:
        """Take the next reply of the script."""
        if self.script.peek_reply() is None:
            return ScenarioReply(say=FINE[self.language])
        one = self.script.take_reply()
        self.last_answer = one.say
        self.previous_call = next(iter(list_calls(one)), self.previous_call)
        return one

    def _draw_slip(self, rate: float) -> ScenarioReply | None:
        """Draw a slip in place of the next reply of the script, or return None."""
        following = self.script.peek_reply()
        if following is None or self.chance.random() >= rate:
            return None
        calls = list_calls(following)
        previous = self.previous_call
        makers: dict[str, Made] = {
            "prose": lambda call: ScenarioReply(
                raw=self.chance.choice(PROSE[self.language]).format(
                    tool=call.tool, args=", ".join(f"{name}={value!r}" for name, value in call.args.items())
                )
            ),
            "announces": lambda call: ScenarioReply(raw=self.chance.choice(ANNOUNCED[self.language])),
            "wrong_key": self._make_wrong_key,
            "wrong_field": self._make_wrong_field,
            "two_at_once": self._make_two_calls,
            "imitates": self._make_imitation,
            "claims": lambda call: ScenarioReply(say=CLAIMED[DEEDS.get(call.tool, "")][self.language]),
            "repeats": lambda call: ScenarioReply(calls=(previous,)) if previous else None,
        }
        kinds = sorted(makers) if calls else ["imitates", "repeats"]
        for kind in self.chance.sample(kinds, len(kinds)):
            if (one := makers[kind](calls[0] if calls else ScenarioCall(tool=""))) is not None:
                self.slips.append(ModelSlip(kind=kind, instead=calls[0].tool if calls else ANSWER, mended=False))
                self.is_open = True
                return one
        return None

    def _make_wrong_key(self, call: ScenarioCall) -> ScenarioReply | None:
        guessed = {name: KEYS[name] for name in call.args if name in KEYS}
        if not guessed:
            return ScenarioReply(tool=f"get_{call.tool}", args=call.args, reason=call.reason)
        return ScenarioReply(tool=call.tool, args={**call.args, **guessed}, reason=call.reason)

    def _make_wrong_field(self, call: ScenarioCall) -> ScenarioReply | None:
        if isinstance(form := call.args.get("form"), dict):
            args: dict[str, Any] = {**call.args, "form": {NAMES.get(name, name): one for name, one in form.items()}}
        else:
            args = {**{NAMES.get(name, name): one for name, one in call.args.items()}, "priority": "high"}
        return ScenarioReply(tool=call.tool, args=args, reason=call.reason)

    def _make_two_calls(self, call: ScenarioCall) -> ScenarioReply | None:
        """Make the right call, and another one with consequences."""
        if call.tool not in GATED or self.script.style == "text":
            return None
        right = list_calls(self._take_right_reply())
        text = {"zh": "已经处理，请知悉。", "en": "This is to let you know."}[self.language]
        mail = ScenarioCall(tool="send_email", args={"to": "王五", "subject": text, "body": text}, reason=call.reason)
        return ScenarioReply(calls=(*right, self.chance.choice((right[-1], mail))))

    def _make_imitation(self, call: ScenarioCall) -> ScenarioReply | None:
        """Imitate lines that only code writes, in place of a call or under the right answer."""
        written = self.chance.choice(RECEIPTS[self.language]).format(tool=call.tool or "start_process")
        if call.tool:
            return ScenarioReply(raw=written) if self.script.style == "native" else ScenarioReply(say=written)
        following = self.script.peek_reply()
        return ScenarioReply(say=f"{following.say if following else ''}\n{written.rpartition(chr(10))[2]}")
