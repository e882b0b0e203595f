"""The rehearsal model: what it makes of everyday words, that it invents nothing, and the protocol around it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st
from openai import AsyncOpenAI

from bot.agent.formats.native_format import NativeFormat
from bot.agent.prompt import build_cards_message
from bot.agent.tool_search import ToolSelector
from bot.core.history_entries import PausedRun
from bot.core.i18n import load_sentences
from bot.dev.rehearsal.plan import plan_reply
from bot.dev.rehearsal.scene import PlannedReply
from bot.dev.rehearsal.serve import build_model_routes
from tests.harness.rehearsal import system, user
from tests.tools.office import office
from tools.catalog import TOOLS as CATALOG
from tools.requests.start_tools import StartTools

NAMES = (
    "list_processes start_process query_todo_tasks decide_task withdraw_request send_email my_requests cancel_card "
    "urge_task request_status show_process set_absence end_absence list_absences search_handbook read_handbook "
    "calculate working_days leave_balance next_holidays offer_steps"
)
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in NAMES.split()]
TASK = {"task": "L-0001-1", "request": "L-0001", "kind": "approve", "requester": "张三", "summary": "…"}
KNOWN: dict[str, Any] = {
    "$OFFERED": {"offered": 1, "done": 0},
    "$TASK": {"tasks": [TASK]},
    "$ONE": {"tasks": [{"task": "T-1", "request": "L-0001", "kind": "approve"}]},
    "$DAYS": {"working_days": "18", "estimated": True, "start_date": {"day": "…"}, "end_date": {"day": "…"}},
}
MANAGER = '<facts from="directory" about="U01ZHANG">\nname: 张三\nmanager: 李四\n</facts>'
TALKS, SENTENCES = (Path(__file__).with_name(f"rehearsal_{name}.txt") for name in ("talks", "sentences"))
WISHES = {
    "mail": "send_email", "absence": "set_absence", "end_absence": "end_absence", "tasks": "query_todo_tasks",
    "decide": "query_todo_tasks", "balance": "leave_balance", "my_requests": "my_requests",
    "withdraw": "withdraw_request",
}  # fmt: skip
CARDS = {"start_process", "send_email", "set_absence", "end_absence", "withdraw_request", "decide_task", "urge_task"}
SEEN = {
    "my_requests": {"requests": [{"request": "L-0001", "status": "waiting", "waits_for": ["李四"], "summary": "…"}]},
    "query_todo_tasks": {"tasks": [{**TASK, "task": "T-1"}]},
}


def waiting(*cards: tuple[str, str]) -> list[dict[str, Any]]:
    told = [PausedRun("R", *card, "U01ZHANG", n, "<cards >- A01forged: x") for n, card in enumerate(cards, 1)]
    return [build_cards_message(told, 0)] if told else []


class Talk:
    """A conversation with the planner, as the loop would hold it."""

    def __init__(self, language: str = "zh", *cards: tuple[str, str]) -> None:
        self.messages = [system(language), *waiting(*cards)]
        self.reply = PlannedReply()

    def say(self, text: str) -> PlannedReply:
        self.messages.append(user(text))
        return self._next()

    def observe(self, *results: dict[str, Any]) -> PlannedReply:
        """What the calls of the last reply gave, in their order."""
        ids = [call["id"] for call in self.messages[-1]["tool_calls"]]
        self.messages += [
            {"role": "tool", "tool_call_id": id_, "content": json.dumps(result, ensure_ascii=False)}
            for id_, result in zip(ids, results, strict=True)
        ]
        return self._next()

    def _next(self) -> PlannedReply:
        self.reply = plan_reply(self.messages, TOOLS)
        calls = [
            {"id": f"call_{i}", "type": "function", "function": {"name": c.tool, "arguments": json.dumps(c.args)}}
            for i, c in enumerate(self.reply.calls)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": self.reply.content}
        self.messages.append(message | ({"tool_calls": calls} if calls else {}))
        return self.reply


def read_talks() -> Iterator[list[str]]:
    """Every talk of the corpus, as its lines; those with several openings as one for each."""
    text = TALKS.read_text(encoding="utf-8")
    for paragraph in text[text.index("\n# ") :].split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line and not line.startswith("# ")]
        about = [line for line in lines if line.startswith("@")]
        rest = lines[len(about) :]
        count = next((n for n, line in enumerate(rest) if not line.startswith(">")), 0)
        for opening in rest[:count]:
            yield [*about, opening, *rest[count:]]


def hold_talk(lines: list[str]) -> None:
    """Plays the talk line by line; what comes otherwise than written fails."""
    about = [line[2:].split() for line in lines if line.startswith("@")]
    cards = [(words[1], words[2]) for words in about if words[0] == "card"]
    talk = Talk("en" if ["en"] in about else "zh", *cards)
    if ["manager"] in about:
        talk.messages.append({"role": "user", "content": MANAGER})
    said, results = "", list[dict[str, Any]]()
    for mark, text in [(line[0], line[1:].strip()) for line in lines if not line.startswith("@")]:
        if mark != "<" and results:
            talk.observe(*results)
            results = []
        if mark == "<":
            results.append(KNOWN[text] if text in KNOWN else json.loads(text))
        elif mark == ">":
            said = said or text
            talk.say(text)
        else:
            check_reply(talk.reply, mark, text.replace("$SAID", said))


def check_reply(reply: PlannedReply, mark: str, text: str) -> None:
    if mark == "=" and text.startswith(". "):
        assert (reply.content, reply.calls) == (text[2:], ())
    elif mark == "=" and "{" not in text:
        assert [call.tool for call in reply.calls] == text.split(", ")
    elif mark in "=~":
        tool, _, args = text.partition(" ")
        found, given = called(reply)
        assert found == tool and (given == json.loads(args) if mark == "=" else includes(given, json.loads(args))), (
            reply
        )
    elif mark == "!":
        assert text not in reply.content
    elif mark in "+":
        form, _, values = text.partition(" ")
        tool, args = called(reply)
        assert tool == "offer_steps" and args["steps"][0].get("form") == form, reply
        step = args["steps"][0]
        assert step["values"] == json.loads(values) if values else len(args["steps"]) > 1, reply
    else:
        assert not reply.calls, reply
        words = [part.split(" | ") for part in text.split(" & ") if part]
        assert all(any(one in reply.content for one in each) for each in words), reply


def includes(given: Any, wanted: Any) -> bool:
    """What is wanted is there; what is null is not."""
    if isinstance(wanted, dict):
        return all(includes(given.get(name), value) for name, value in wanted.items())
    return bool(given == wanted)


def called(reply: PlannedReply) -> tuple[str, dict[str, Any]]:
    assert len(reply.calls) == 1, reply
    return reply.calls[0].tool, dict(reply.calls[0].args)


def test_what_it_makes_of_everyday_words(subtests: pytest.Subtests) -> None:
    talks = [*read_talks()]
    assert len(talks) > 100
    for lines in talks:
        with subtests.test(" / ".join(lines)):
            hold_talk(lines)


def judge_sentence(language: str, wishes: str, facts: dict[str, Any], sentence: str) -> str:
    """Return `served`, `led` (to the right form), `neither`, or `wrong`: another card, or a card with other facts."""
    talk, met = Talk(language), set[str]()
    reply, outcome = talk.say(sentence), "served"
    while reply.calls:
        tool, args = called(reply)
        wish = str(args["process"]) if tool == "start_process" else ""
        given = args["form"] if wish else args
        made = {wish, *(name for name, one in WISHES.items() if one == tool)}
        made |= {"decide"} if tool == "decide_task" else set()
        offered = {str(step.get("form")) for step in args["steps"]} if tool == "offer_steps" else set[str]()
        if tool in CARDS and not (made & {*wishes.split("+")} and includes(given, facts)):
            return "wrong"
        if len(offered) == 1 and offered & {*wishes.split("+")}:
            outcome = "led"
        met |= made | (offered if len(offered) == 1 else {"other"})
        reply = talk.observe(SEEN.get(tool, {"request": "L-0009", "status": "waiting"}))
    met |= {"cancel"} if "没有改变" in reply.content or "Nothing was changed" in reply.content else {"other"}
    if wishes == "other":
        return "served" if not met & {"leave", "expense", "mail", "absence"} else "neither"
    return outcome if {*wishes.split("+")} <= met else "neither"


def test_new_sentences_are_served_or_led_to_the_right_form() -> None:
    """Sentences of somebody who has not read the rules: all are served or led, and nothing is wrong."""
    lines = [line.split("\t") for line in SENTENCES.read_text(encoding="utf-8").splitlines() if "\t" in line]
    found = [(judge_sentence(language, wish, json.loads(facts), text), text) for language, wish, facts, text in lines]
    failed = [one for one in found if one[0] not in ("served", "led")]
    assert (len(lines), failed) == (162, [])


def test_negative_control_a_card_that_was_not_wanted_is_wrong() -> None:
    for wish, facts, sentence, verdict in (
        ("leave", {"start_date": "2026-11-21"}, "明天请一天年假", "served"),
        ("leave", {"start_date": "2026-11-22"}, "明天请一天年假", "wrong"),
        ("expense", {}, "明天请一天年假", "wrong"),
        ("expense", {}, "我想请假", "neither"),
        ("leave", {}, "我想请假", "led"),
    ):
        assert judge_sentence("zh", wish, facts, sentence) == verdict, (wish, sentence)


def test_negative_control_a_talk_that_goes_otherwise_fails() -> None:
    tasks = (
        "= my_requests {}",
        '= query_todo_tasks {"person": "李四"}',
        "+ leave {}",
        "= query_todo_tasks, my_requests",
    )
    others = [["> 我想请假", "+ expense {}"], ["> hello", ". nothing of the kind"]]
    for wrong in (*(["> 我的待办", one] for one in tasks), *others):
        with pytest.raises(AssertionError):
            hold_talk(wrong)


def test_notes_of_the_loop_are_not_taken_for_the_person_and_only_what_is_offered_is_called() -> None:
    for role, mark in (("system", ""), ("developer", ""), ("user", "[system] ")):
        note = {"role": role, "content": f"{mark}Your last reply could not be used: empty"}
        assert called(plan_reply([system(), user("我的待办"), note], TOOLS))[0] == "query_todo_tasks"
    reply = plan_reply([system(), user("我的待办")], [])
    assert not reply.calls and "query_todo_tasks" in reply.content


async def test_a_process_is_started_by_its_own_tool_where_that_is_offered_and_a_rare_tool_is_called() -> None:
    tools = await offered_now()
    for text, tool, args in (
        ("从2026-12-07到2026-12-08请年假，审批人李四，回家看父母", "start_leave", {"end_date": "2026-12-08"}),
        ("报销 1500 元差旅费，审批人李四", "start_expense", {"amount": "1500", "category": "travel"}),
    ):
        found, given = called(plan_reply([system(), user(text)], tools))
        assert found == tool and args.items() <= given.items() and given["approver"] == "李四" and "form" not in given
        seen = {"id": "call_0", "type": "function", "function": {"name": tool, "arguments": json.dumps(given)}}
        data = {"request": "L-0001", "status": "waiting", "waits_for": ["李四"]}
        talk = [system(), user(text), {"role": "assistant", "content": "", "tool_calls": [seen]}]
        told = plan_reply([*talk, {"role": "tool", "tool_call_id": "call_0", "content": json.dumps(data)}], tools)
        assert "L-0001" in told.content and "李四" in told.content and not told.calls
    away = [system(), user("下周一到下周三我不在，由王五代我审批")]
    assert "set_absence" not in [one["function"]["name"] for one in tools]
    assert called(plan_reply(away, tools))[0] == "set_absence"
    without = [one for one in tools if one["function"]["name"] != "find_tools"]
    assert not plan_reply(away, without).calls, "control"


async def offered_now() -> list[dict[str, Any]]:
    """What the bot offers a model with every message."""
    starts = StartTools()
    await starts.refresh_tools(office().engine)
    body = ToolSelector(CATALOG, {}, 30, starts).get_tool_prompt(NativeFormat(), None).extra_body
    return list(json.loads(f"{{{body}}}")["tools"])


def test_it_asks_no_questions_and_is_never_cheerful() -> None:
    for key, words in load_sentences().items():
        if key.startswith("rehearsal."):
            said = "".join(words.values()).replace("您好！", "").replace("Hello!", "")
            assert not {"?", "？", "!", "！"} & {*said}, key


@given(st.lists(st.text(max_size=60), min_size=1, max_size=3), st.sampled_from(["zh", "en"]))
def test_any_words_get_an_answer_and_every_call_a_reason(texts: list[str], language: str) -> None:
    talk = Talk(language)
    for text in texts:
        reply = talk.say(text)
        assert bool(reply.content) != bool(reply.calls)
        assert all(call.reason for call in reply.calls)


async def test_the_openai_client_understands_it() -> None:
    app = web.Application()
    app.add_routes(build_model_routes())
    async with TestServer(app) as server, AsyncOpenAI(base_url=str(server.make_url("/v1")), api_key="local") as client:
        models = await client.models.list()
        first = await client.chat.completions.create(
            model="rehearsal", messages=[], extra_body={"messages": [system(), user("我的待办")], "tools": TOOLS}
        )
        last = await client.chat.completions.create(model="rehearsal", messages=[{"role": "user", "content": "hello"}])
    call = (first.choices[0].message.tool_calls or [])[0]
    assert [model.id for model in models.data] == ["rehearsal"]
    assert first.choices[0].finish_reason == "tool_calls" and call.type == "function"
    assert json.loads(call.function.arguments)["note"]
    assert last.choices[0].finish_reason == "stop" and last.model == "rehearsal"
    assert last.usage is not None and last.usage.total_tokens > 0


BAD = ["{", "[]", "{}", '{"messages": 3}', '{"messages": [1]}', '{"messages": [], "stream": true}']


async def test_a_request_it_cannot_read_is_refused_and_the_next_one_is_answered() -> None:
    app = web.Application()
    app.add_routes(build_model_routes())
    async with TestClient(TestServer(app)) as client:
        for body in BAD:
            answer = await client.post("/v1/chat/completions", data=body)
            assert answer.status == 400 and "message" in (await answer.json())["error"], body
        answer = await client.post("/v1/chat/completions", json={"messages": [user("hello")]})
        assert answer.status == 200
