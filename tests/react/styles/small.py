"""Small tools for replies to call, and what a reply should be read as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from bot.react.decision import Act, Answer, Decision, Malformed, Proposed, Withheld
from tools.spec import Choice, Gate, Note, Outcome, Plan
from tools.tool import Tool, Use


class Args(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Look(Args):
    name: str


class Find(Args):
    query: str
    page: int = 1


class All(Args):
    page: int = 1


class Nothing(Args):
    pass


class Tag(Args):
    people: list[str]


class Remark(Args):
    text: str
    reason: str = ""


class Pay(Args):
    amount: int


class Mail(Args):
    to: str
    body: str


async def ran(use: Use, args: BaseModel) -> Outcome:
    return Outcome(data={"done": args.model_dump()}, note=Note(key="result.people", params={"n": 1}))


async def planned(use: Use, args: BaseModel) -> Plan:
    choices = (Choice(name="confirm"),)
    return Plan(args=args.model_dump(), title=Note(key="x"), facts=(), deciders=("U1",), choices=choices)


def tool(name: str, args: type[BaseModel], gated: bool = False, /, **example: Any) -> Tool:
    return Tool(
        name=name,
        purpose=f"To {name}.",
        use_when="It is asked for.",
        avoid_when="It is not.",
        args=args,
        returns="{}",
        errors={},
        example=example,
        run=ran,
        gate=Gate.CONFIRM if gated else Gate.NONE,
        prepare=planned if gated else None,
        stored=args if gated else None,
    )


TOOLS: Sequence[Tool] = (
    tool("look", Look, name="Li"),
    tool("find_rule", Find, query="leave"),
    tool("list_all", All),
    tool("now", Nothing),
    tool("tag", Tag, people=["Li"]),
    tool("remark", Remark, text="x"),
    tool("pay", Pay, True, amount=5),
    tool("mail", Mail, True, to="Li", body="x"),
)


@dataclass(frozen=True)
class Expected:
    """A decision, without what does not matter: the words of a problem, the ids of calls."""

    kind: str
    calls: tuple[tuple[str, dict[str, Any], bool], ...] = ()
    text: str = ""
    reason: str | None = None


def act(name: str, reason: str | None = None, /, repaired: bool = False, **args: Any) -> Expected:
    return Expected("act", ((name, args, repaired),), reason=reason)


def guess(name: str, reason: str | None = None, /, **args: Any) -> Expected:
    return act(name, reason, repaired=True, **args)


def acts(*several: Expected) -> Expected:
    return Expected("act", tuple(call for one in several for call in one.calls))


def answer(text: str) -> Expected:
    return Expected("answer", text=text)


MALFORMED, WITHHELD = Expected("malformed"), Expected("withheld")


def prose(text: str) -> Expected:
    """Malformed, and the answer if it comes again."""
    return Expected("malformed", text=text)


def seen(decision: Decision, like: Expected) -> Expected:
    match decision:
        case Act(proposed):
            reason = proposed[0].reason if like.reason is not None else None
            return Expected("act", tuple(map(_call, proposed)), reason=reason)
        case Answer(text):
            return answer(text)
        case Malformed(problem, words):
            assert problem
            return prose(words)
        case Withheld():
            return WITHHELD


def _call(one: Proposed) -> tuple[str, dict[str, Any], bool]:
    return one.tool, one.args, one.repaired
