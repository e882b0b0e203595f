"""Which tools a run is offered: the right one among them, the same wherever it goes on, and none that was not read is
run."""

import json
import random
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, RootModel

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.limits import RunLimits
from bot.agent.loop import AgentLoop, ModelInUse, RunEvent, RunFinished, RunPaused, StepsFinished
from bot.agent.model import ModelReply
from bot.agent.tool_search import FIND, FOUND_AT_ONCE, MAX_FOUND, ToolIndex, ToolSelector, build_index_text
from bot.core.run_state import CallStatus, RunState
from tests.harness.loop import Bench, acts, call, own, run_loop
from tests.harness.scripted_model import Scripted, ScriptedModel
from tests.harness.tools import build_gated_tool, build_tool
from tools.catalog import TOOLS
from tools.handbook.ranking import build_index
from tools.spec import Offer, TextRef, ToolOutcome
from tools.tool import Tool, ToolContext

MANY = tomllib.loads(Path(__file__).with_name("many_tools.toml").read_text(encoding="utf-8"))
UNSEEN: Sequence[tuple[str, str]] = [(asked, right) for asked, right in MANY["unseen"]]
QUESTIONS: Sequence[tuple[str, str]] = [(asked, right) for asked, right in MANY["questions"]]
MOST = 30
CORE = frozenset(tool.name for tool in TOOLS if tool.offer is Offer.ALWAYS)
RECALL, RECALL_UNSEEN = 0.95, 0.7
"""So often the right tool is among those offered, at least; and for questions that the words were not chosen by."""


class Ran:
    """What tools of servers were run."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def tool(self, name: str, said: str = "A tool.", args: str = "", *, is_gated: bool = False) -> Tool:
        async def run(use: ToolContext, given: BaseModel) -> ToolOutcome:
            self.names.append(name)
            return ToolOutcome(data={"ran": name}, summary=TextRef(key="x"))

        schema = {"type": "object", "properties": {one: {"type": "string"} for one in args.split()}}

        class Given(RootModel[dict[str, Any]]):
            @classmethod
            def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
                return schema

        server = name.partition("__")[0]
        purpose = f"Tool of the server {server}, which is not part of this program. It says: “{said}”"
        build = build_gated_tool if is_gated else build_tool
        return build(name, Given, run, purpose=purpose, server=server)


def company() -> dict[str, Tool]:
    """Tools of servers."""
    return {name: Ran().tool(name, said, args) for name, said, args in MANY["cards"]}


@pytest.fixture
def offers() -> ToolSelector:
    return ToolSelector(TOOLS, company(), MOST)


def choose(offers: ToolSelector, asked: str, *before: str, lately: Sequence[str] = ()) -> Sequence[str]:
    return offers.choose_offered_tools(asked, *before, called_tools=lately) or []


def tell(offers: ToolSelector, names: Sequence[str] | None = None) -> str:
    """What endpoints are told of these tools."""
    return offers.get_tool_prompt(NativeFormat(), names).extra_body


def recall(offers: ToolSelector, questions: Sequence[tuple[str, str]] = QUESTIONS) -> float:
    return sum(right in choose(offers, asked) for asked, right in questions) / len(questions)


def test_the_test_set_is_large_and_names_tools_that_exist() -> None:
    names = {tool.name for tool in TOOLS} | set(company())
    assert len(MANY["cards"]) >= 80 and len(QUESTIONS) >= 60
    assert len(company()) == len(MANY["cards"])
    assert {right for _, right in (*QUESTIONS, *UNSEEN)} <= names
    assert not {asked for asked, _ in QUESTIONS} & {asked for asked, _ in UNSEEN}
    assert CORE.isdisjoint(right for _, right in QUESTIONS), "what is always there would be found for nothing"
    chinese = [asked for asked, _ in QUESTIONS if any("\u4e00" <= one <= "\u9fff" for one in asked)]
    assert len(chinese) >= 30 and len(QUESTIONS) - len(chinese) >= 30


def test_the_right_tool_is_among_those_offered(offers: ToolSelector) -> None:
    missed = [(asked, right) for asked, right in QUESTIONS if right not in choose(offers, asked)]
    found, unseen = recall(offers), recall(offers, UNSEEN)
    tools = len(TOOLS) + len(company())
    print(f"the right tool is offered: {found:.1%} of {len(QUESTIONS)} questions, {MOST} of {tools} tools")
    print(f"of {len(UNSEEN)} questions that the words were not chosen by: {unseen:.1%}")
    assert found >= RECALL, missed
    assert unseen >= RECALL_UNSEEN


def test_chance_is_far_below() -> None:
    dice, others = random.Random(5), sorted({tool.name for tool in TOOLS} - CORE | set(company()))
    room = MOST - 1 - len(CORE)
    found = sum(right in dice.sample(others, room) for _ in range(20) for _, right in QUESTIONS) / 20 / len(QUESTIONS)
    assert found < 0.3, found


def test_the_words_of_both_languages_are_needed(offers: ToolSelector, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: without them, a question in one language does not find a card in the other."""
    monkeypatch.setattr("bot.agent.tool_search.expand_query", lambda query: query)
    assert recall(offers) < RECALL - 0.1


@pytest.mark.parametrize("most", [16, 20, 30, 50])
def test_never_more_than_the_setting_and_always_the_core(most: int) -> None:
    offers = ToolSelector(TOOLS, company(), most)
    for asked in [*(asked for asked, _ in QUESTIONS), "", "？", "zzz qqq"]:
        names = choose(offers, asked)
        assert len(names) == most == len(set(names)) and set(names) >= CORE | {FIND}


def test_what_was_said_before_and_tools_called_lately_count(offers: ToolSelector) -> None:
    hotels, reset, question = "travel__search_hotels", "it__reset_password", "把审批意见翻译成英文"
    assert hotels not in choose(offers, "zzz") and hotels in choose(offers, "zzz", "a hotel in Shenzhen")
    assert {reset, hotels} <= set(choose(offers, "Reset my password", "a hotel in Shenzhen"))
    assert reset not in choose(offers, question)
    assert reset in choose(offers, question, lately=["wiki__read_page", reset, "gone__tool"])
    again = choose(offers, question, lately=[*sorted(company()), reset])
    assert reset in again and len(again) == MOST, "the newest, and not more than there is room for"


def test_few_tools_of_servers_are_all_offered_and_without_servers_nothing_is_chosen() -> None:
    few: dict[str, Tool] = {}
    offers = ToolSelector(TOOLS, few, MOST)
    assert offers.choose_offered_tools("hello") is None
    few["wiki__read"] = Ran().tool("wiki__read")
    ours = ToolSelector(TOOLS, {}, MOST).list_offered_names(None)
    assert offers.choose_offered_tools("hello") == [*ours, "wiki__read"], "also a server that comes later"
    assert len(ToolSelector(TOOLS, {}, 16).list_offered_names(None)) <= 16


def test_what_is_ours_comes_first_and_is_the_same_with_every_message(offers: ToolSelector) -> None:
    """So that requests begin with the same bytes, whatever is asked."""
    chosen = [choose(offers, asked) for asked, _ in QUESTIONS]
    always = offers.list_offered_names(None)
    assert all(names[: len(always)] == always for names in chosen)
    assert len({tuple(names) for names in chosen}) > 10, "control: what follows goes by the question"
    shared = tell(offers).removesuffix("]")
    assert all(tell(offers, names).startswith(shared) for names in chosen[:5])


def test_rare_tools_of_ours_are_named_by_the_finder_and_not_offered() -> None:
    offers = ToolSelector(TOOLS, {}, MOST)
    told, offered = offers.get_tool_prompt(NativeFormat(), None).tools[-1].purpose, offers.list_offered_names(None)
    rare = [tool.name for tool in TOOLS if tool.offer is Offer.RARE]
    assert rare and set(rare).isdisjoint(offered) and all(f"{name} (" in told for name in rare)
    assert "加签" in told and "add_sign" in [tool.name for tool in offers.rank_tools("请别人加签")[:FOUND_AT_ONCE]]


def test_the_same_set_is_told_in_the_same_bytes_wherever_it_is_told() -> None:
    style = NativeFormat()
    one, other = (ToolSelector(TOOLS, mapping, MOST) for mapping in (company(), dict(reversed(company().items()))))
    names, others = (choose(offers, QUESTIONS[0][0]) for offers in (one, other))
    assert names == others, "the order in which servers come does not matter"
    assert tell(one, names) == tell(other, names)
    assert one.get_tool_prompt(style, names) is one.get_tool_prompt(style, names)


def test_a_tool_that_has_become_another_one_is_told_anew() -> None:
    tools = company()
    offers = ToolSelector(TOOLS, tools, MOST)
    before = tell(offers, ["wiki__read_page"])
    tools["wiki__read_page"] = Ran().tool("wiki__read_page", "It has changed.")
    after = tell(offers, ["wiki__read_page"])
    assert before != after and "It has changed." in after
    assert any("It has changed." in tool.purpose for tool in offers.rank_tools("changed"))


@pytest.mark.parametrize("style", [TextFormat(), JsonFormat()], ids=lambda one: one.name)
def test_told_in_words_tools_of_others_are_not_in_the_system_message(style: TextFormat | JsonFormat) -> None:
    sheet = ToolSelector(TOOLS, company(), MOST).get_tool_prompt(style, ["calculate", "wiki__read_page"])
    assert "calculate" in sheet.instructions and "wiki__read_page" not in sheet.instructions
    assert "wiki__read_page" in sheet.server_tools and "calculate" not in sheet.server_tools
    native = ToolSelector(TOOLS, company(), MOST).get_tool_prompt(NativeFormat(), ["calculate", "wiki__read_page"])
    assert native.server_tools == "", "there the endpoint is given them"


OFFER_16 = RunLimits(offered_tools=16)


class Crowd(Bench):
    """The loop's small tools, and a crowd of servers' ones."""

    def __init__(self) -> None:
        super().__init__()
        self.theirs = Ran()
        cards: list[tuple[str, str]] = [(f"shop__item_{n}", f"Something with number {n}.") for n in range(60)]
        self.more = {name: self.theirs.tool(name, said) for name, said in cards}
        self.more["shop__zebra"] = self.theirs.tool("shop__zebra", "Feeds the zebra.")
        self.more["shop__sell"] = self.theirs.tool("shop__sell", "Sells the rhinoceros.", is_gated=True)

    async def play(
        self, script: Sequence[Scripted], trace: RunState | None = None, ours: Sequence[Tool] = ()
    ) -> tuple[list[RunEvent], RunState, AgentLoop]:
        """`ours`: instead of the crowd of servers' tools."""
        model, theirs = ScriptedModel(list(script)), {} if ours else self.more
        loop = AgentLoop(ModelInUse(model), ours or self.tools(), server_tools=theirs, limits=OFFER_16)
        if trace is None:
            trace = RunState(offered_tools=loop.selector.choose_offered_tools("item"))
            trace.append_message({"role": "user", "content": "hello"})
        return await run_loop(loop, trace), trace, loop


async def test_find_tools_brings_in_what_it_finds_and_then_it_can_be_called() -> None:
    crowd = Crowd()
    script = [acts(call(FIND, query="feed the zebra")), acts(call("shop__zebra")), ModelReply(text="fed")]
    events, trace, _ = await crowd.play(script)
    assert [type(one) for one in events] == [StepsFinished, StepsFinished, RunFinished]
    assert crowd.theirs.names == ["shop__zebra"]
    assert trace.offered_tools is not None and "shop__zebra" in trace.offered_tools
    assert "zebra" in own(trace)[2]["content"], "its card is what the tool found"
    assert len(trace.offered_tools) <= 16 + FOUND_AT_ONCE


async def test_a_tool_that_was_not_offered_is_answered_with_its_card_and_not_run_or_shown() -> None:
    crowd = Crowd()
    _, trace, _ = await crowd.play([acts(call("shop__zebra")), ModelReply(text="no")])
    assert crowd.theirs.names == [] and trace.calls[0].status is CallStatus.FAILED
    assert "not_offered" in own(trace)[2]["content"] and "Feeds the zebra" in own(trace)[2]["content"]
    assert trace.offered_tools is not None and trace.offered_tools[-1] == "shop__zebra"
    events, _, _ = await crowd.play([acts(call("shop__sell")), acts(call("shop__sell")), ModelReply(text="no")])
    assert [type(one) for one in events] == [StepsFinished, RunPaused] and crowd.theirs.names == []
    crowd.more = {"shop__zebra": crowd.more["shop__zebra"]}
    await crowd.play([acts(call("shop__zebra")), ModelReply(text="ok")])
    assert crowd.theirs.names == ["shop__zebra"], "control: a tool that is offered runs at once"


async def test_a_rare_tool_of_ours_runs_without_having_been_found() -> None:
    crowd = Crowd()
    rare = replace(crowd.theirs.tool("stamp"), offer=Offer.RARE, server="")
    script = [acts(call("stamp")), ModelReply(text="ok")]
    events, trace, loop = await crowd.play(script, ours=[*crowd.tools(), rare])
    assert "stamp" not in loop.selector.list_offered_names(None)
    assert isinstance(events[-1], RunFinished) and crowd.theirs.names == ["stamp"]
    assert trace.offered_tools is None, "what is offered stays the same"


async def test_a_rare_tool_with_arguments_that_do_not_fit_answers_with_its_card_and_is_offered() -> None:
    crowd = Crowd()
    rare = [replace(tool, offer=Offer.RARE) for tool in crowd.tools()]
    _, trace, loop = await crowd.play([acts(call("look", name=["Li"])), ModelReply(text="no")], ours=rare)
    assert "bad_arguments" in own(trace)[2]["content"] and "Its card" in own(trace)[2]["content"]
    assert trace.offered_tools == [*loop.selector.list_offered_names(None), "look"], "behind all others"


async def test_a_run_that_goes_on_elsewhere_has_the_same_tools() -> None:
    script = [acts(call(FIND, query="zebra")), acts(call("shop__sell")), ModelReply(text="x")]
    _, trace, here = await Crowd().play(script)
    there = RunState.model_validate_json(trace.model_dump_json())
    again = AgentLoop(ModelInUse(ScriptedModel([])), Crowd().tools(), server_tools=Crowd().more, limits=OFFER_16)
    assert there.offered_tools == trace.offered_tools
    assert tell(again.selector, there.offered_tools) == tell(here.selector, trace.offered_tools)


def test_what_a_run_may_bring_in_has_an_end(offers: ToolSelector) -> None:
    names = offers.extend_offered_names(company(), choose(offers, "hello"))
    assert len(names) == MOST + MAX_FOUND
    assert names[:MOST] == choose(offers, "hello"), "what was there stays where it was"


async def test_a_server_that_has_gone_takes_its_tools_along_and_the_run_goes_on() -> None:
    crowd = Crowd()
    _, trace, _ = await crowd.play([acts(call(FIND, query="zebra")), ModelReply(text="x")])
    del crowd.more["shop__zebra"]
    events, trace, _ = await crowd.play([acts(call("shop__zebra")), ModelReply(text="gone")], trace)
    assert isinstance(events[-1], RunFinished) and "unknown_tool" in own(trace)[-2]["content"]


def test_an_own_tool_is_found_by_what_people_call_it() -> None:
    told = {tool.name: build_index_text(tool) for tool in TOOLS}
    assert "催办" in told["urge_task"] and "Urge a decision" in told["urge_task"]
    shelf = ToolIndex(TOOLS, build_index([told[tool.name] for tool in TOOLS]))
    assert shelf.rank_tools("催办")[0].name == "urge_task"


def test_the_finder_says_whose_tools_there_are_and_their_arguments_are_as_servers_say(offers: ToolSelector) -> None:
    assert "There are tools of: calendar, chat, code, crm," in tell(offers, [FIND])
    [told] = json.loads("{" + tell(offers, ["crm__log_visit"]) + "}")["tools"]
    assert set(told["function"]["parameters"]["properties"]) == {"note", "customer_id", "date", "notes"}
