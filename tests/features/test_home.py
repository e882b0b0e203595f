"""Home pages by themselves: whole and within Slack's limits however much there is, with few actions, quickly built."""

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis
from slack_sdk.models.views import View

from bot.chat.messages import Button, Card, HomeButton, HomeEntry, HomePress, HomeSection, HomeView
from bot.core.errors import ChatUnavailableError, StoreUnavailableError
from bot.dev.workspace.validate import check_view
from bot.features.home.open_pages import HomePlace, HomeRefresher, HomeStore
from bot.features.home.page import PAGE
from bot.platforms.slack.home import render_home_dialog, render_home_view
from tests.harness.corpus import corpus
from tests.harness.engines import StartEngine
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.linear.pace import measure_pace
from tests.tools.office import TAXI, decide
from tests.tools.workflow.remote.company import DESK, LI, world_of
from tools.spec import ToolError
from tools.workflow.engine.commands import DecideCommand
from tools.workflow.engine.state import Decision, Delegation
from tools.workflow.remote.api import EngineName

MANY = 10_000


async def build_crowd(redis: Redis) -> Bot:
    """So many tasks wait for Li Si, the first ones with their cards."""
    bot = Bot(redis)
    for n in range(PAGE + 1):
        await bot.start_request("expense", {**TAXI, "amount": str(n + 30)}, "U1", f"taxi {n}")
    body = bot.store.requests["E-0001"]
    for n in range(PAGE + 2, MANY + 1):
        bot.store.requests[f"E-{n:05}"] = body.replace("E-0001", f"E-{n:05}")
        for name, person, member in (("todo", "U2", f"E-{n:05}-1"), ("mine", "U1", f"E-{n:05}")):
            bot.store.lists[name, person][member] = 2**45 + n
        bot.store.lists.setdefault(("done", "U2"), {})[f"E-{n:05}-1"] = n
    return bot


def list_rows(view: dict[str, Any]) -> list[list[dict[str, Any]]]:
    return [block["elements"] for block in view["blocks"] if block["type"] == "actions"]


@pytest.mark.slow
async def test_ten_thousand_tasks_are_pages_of_a_few(redis: Redis) -> None:
    bot = await build_crowd(redis)
    builder = bot.ingress.features.home.builder
    store = HomeStore(bot.redis, bot.keys)
    for skip in (0, PAGE, 4_995, 9_995, 1_000_000):
        for person in ("U1", "U2"):
            await store.save_place(person, HomePlace(tasks=skip, requests=skip))
            began = time.thread_time()
            page = await builder.build_home(person)
            took_s, most_s = time.thread_time() - began, 6 if skip > 5_000 or person == "U1" else 2
            assert page is not None and took_s < most_s * measure_pace()
            view = render_home_view(page, "zh", "D1")
            assert len(view["blocks"]) <= 100 and not check_view(view)
            View(**view).validate_json()
            assert all(len(row) <= 2 for row in list_rows(view)), "at most two things to do in a place"
            assert all(sum(one.get("style") == "primary" for one in row) <= 1 for row in list_rows(view))
            assert len(page.sections[0].entries) <= PAGE + 1, "and what asks for several at once"
            if person == "U2":
                assert f"共 {MANY} 项" in page.sections[0].note
    await store.save_place("U2", HomePlace())
    first = await builder.build_home("U2")
    choices = [[b.choice for b in one.card.buttons] for one in first.sections[0].entries]
    assert choices == [["several"], *[["approve"]] * PAGE]


async def test_pages_are_turned_by_their_buttons_and_nothing_else(redis: Redis) -> None:
    bot = await build_crowd(redis)
    builder, actions = bot.ingress.features.home.builder, bot.ingress.features.home
    await builder.pages.save_place("U2", HomePlace())
    seen = []
    for _ in range(3):
        page = await builder.build_home("U2")
        entries = [one.card for one in page.sections[0].entries]
        seen.append([one.title for one in entries if [b.choice for b in one.buttons] != ["several"]])
        onward = next(one for one in page.sections[0].buttons if one.action == "turn")
        assert await actions.handle_press(HomePress(id="t", person="U2", action="turn", value=onward.value)) is None
    assert len({title for titles in seen for title in titles}) == 3 * PAGE
    before = await builder.pages.load_place("U2")
    for odd in ("", "tasks", "tasks.-5", "tasks.x", "v.3", "decisions.5", "tasks.９"):
        await actions.handle_press(HomePress(id="t", person="U2", action="turn", value=odd))
    assert await builder.pages.load_place("U2") == before
    assert await builder.pages.load_place("U1") is None, "each turns their own"


TEXTS = st.text(max_size=400)
ROWS = st.lists(st.builds(HomeButton, label=TEXTS, action=st.just("urge"), value=st.just("L-1")), max_size=1).map(tuple)
ENTRIES = st.builds(
    HomeEntry,
    st.builds(
        Card,
        title=TEXTS,
        facts=st.lists(st.tuples(TEXTS, TEXTS), max_size=12).map(tuple),
        lead=st.text(max_size=6_000),
        buttons=st.sampled_from([(), (Button("Yes", "approve", "A1", 1, "primary"),)]),
    ),
    ROWS,
)
SECTIONS = st.builds(
    HomeSection, title=TEXTS, entries=st.lists(ENTRIES, max_size=12).map(tuple), empty=TEXTS, note=TEXTS, buttons=ROWS
)


@settings(max_examples=30, deadline=None)
@given(st.lists(SECTIONS, min_size=1, max_size=8).map(tuple), TEXTS)
def test_whatever_stands_on_it_slack_takes_it(sections: tuple[HomeSection, ...], title: str) -> None:
    view = render_home_view(HomeView(title, sections, request="Request…", freshness="now", start="hello"), "en", "D1")
    assert len(view["blocks"]) <= 100 and not check_view(view)


def test_the_control_without_the_count_it_would_be_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.platforms.slack.home.MAX_BLOCKS", 10_000)
    entries = tuple(HomeEntry(Card(f"{n}", buttons=(Button("Yes", "approve", f"A{n}", 1),))) for n in range(200))
    assert check_view(render_home_view(HomeView("x", (HomeSection("x", entries),)), "en"))


async def test_every_dialog_of_home_is_one_slack_takes_and_says_what_it_is(redis: Redis) -> None:
    bot = Bot(redis)
    await bot.start_request("expense", TAXI, "U1", "taxi")
    later = bot.today().replace(year=2027)
    absence = Delegation(id="D1", person="U1", deputy="U5", start=bot.today(), end=later)
    await bot.engine.add_delegation(absence, bot.today())
    actions = bot.ingress.features.home
    values = {"urge": "E-0001", "withdraw": "E-0001", "end_absence": "D1", "decisions": "0"}
    for person, language in (("U1", "zh"), ("U5", "en")):
        for action in ("urge", "withdraw", "end_absence", "set_absence", "settings", "decisions", "open"):
            press = HomePress(id="t", person=person, action=action, value=values.get(action, "A00x.1"))
            dialog = await actions.handle_press(press)
            view = render_home_dialog(dialog, language, "D1")
            assert not check_view(view) and 2 <= len(view["title"]["text"]) <= 24, (action, view["title"])
            assert "…" not in view["title"]["text"], "not cut"
            if view.get("submit"):
                assert view["submit"]["text"] not in ("提交", "Submit", "OK", "确定"), "the outcome's verb"
            View(**{key: one for key, one in view.items() if key != "callback_id"}).validate_json()


async def test_a_press_is_answered_while_the_engine_cannot_be_asked(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def be_away(*asked: object) -> object:
        raise ToolError("engine_down", "away")

    bot = Bot(redis)
    monkeypatch.setattr(bot.engine, "list_recent_decisions", be_away)
    monkeypatch.setattr(bot.engine, "list_todo_tasks", be_away)
    press = HomePress(id="t", person="U1", action="decisions", value="0")
    dialog = await bot.ingress.features.home.handle_press(press)
    assert dialog is not None and not dialog.submit and "流程引擎" in dialog.notice
    assert await bot.ingress.welcome_person("U1", DM), "and whoever opens their DM still sees what they could write"


@pytest.mark.parametrize("kind", ["operaton", "flowable"])
async def test_nothing_is_offered_that_the_engine_cannot_do(
    redis: Redis, kind: EngineName, start_engine: StartEngine
) -> None:
    """Another engine knows no stand-ins, and withdraws nothing that is approved."""
    async with world_of(kind, start_engine(kind)) as world:
        bot = Bot(redis, engine=world.engine)
        builder, actions = bot.ingress.features.home.builder, bot.ingress.features.home
        waiting, ended = await world.start(), await world.start(process="spend", form=DESK)
        await world.decide(await world.task(ended.request), LI, "approve")
        page = await builder.build_home("U1")
        offered = {one.value: one.action for row in page.sections[1].entries for one in row.buttons}
        assert offered == {waiting.request: "withdraw"} and len(page.sections[1].entries) == 2
        assert page.sections[3].buttons == () and "不支持代理" in page.sections[3].empty
        pressed = await actions.handle_press(HomePress(id="t", person="U1", action="set_absence", value=""))
        assert pressed is not None and not pressed.submit and "不支持代理" in pressed.notice, "on an older page"


async def test_the_control_here_both_are_offered(redis: Redis) -> None:
    bot = Bot(redis)
    builder = bot.ingress.features.home.builder
    await bot.engine.start_request("expense", {**TAXI, "amount": "31"}, "U1", "taxi", bot.today())
    command = DecideCommand(task="E-0001-1", actor="U2", decision=Decision.APPROVE)
    await bot.engine.execute_command(command, "yes", bot.today())
    page = await builder.build_home("U1")
    assert page is not None and [one.action for one in page.sections[3].buttons] == ["set_absence"]
    assert [one.action for row in page.sections[1].entries for one in row.buttons] == ["withdraw"]


@corpus(
    ("failure", "again"),
    (StoreUnavailableError("away"), True),
    (ChatUnavailableError("ratelimited", "x"), False),
    (KeyError("odd"), False),
)
async def test_what_the_store_interrupts_is_renewed_later(redis: Redis, failure: Exception, again: bool) -> None:
    bot, shown, failing = Bot(redis), list[str](), [failure]

    async def publish_home(person: str, page: HomeView) -> None:
        if failing:
            raise failing.pop()
        shown.append(person)

    builder = bot.ingress.features.home.builder
    core = replace(builder.core, platform=replace(builder.core.platform, publish_home=publish_home))
    refresher = HomeRefresher(core, builder.pages, replace(builder, core=core).build_home)
    await builder.pages.save_place("U1", HomePlace())
    for person in ("U1", "U2"):
        await builder.pages.mark_person(person)
    if again:
        with pytest.raises(StoreUnavailableError):
            await refresher.refresh_changed_homes()
        await bot.redis.delete(bot.keys.build_key(bot.keys.get_partition("U1"), "home_turn", "U1"))
    await refresher.refresh_changed_homes()
    assert shown == (["U1"] if again else []), "only who has theirs open; what Slack refuses is not repeated"
    assert await builder.pages.take_changed_people(9) == []


async def test_requests_that_came_back_are_no_decisions_of_their_author(redis: Redis) -> None:
    bot = Bot(redis)
    for n in range(3):
        await bot.start_request("expense", {**TAXI, "amount": str(n + 31)}, "U1", f"taxi {n}")
    for task in ("E-0001-1", "E-0002-1"):
        await decide(bot.engine, task, "U2", Decision.RETURN, "no receipt")
    await bot.work()
    builder = bot.ingress.features.home.builder
    [author, decider] = [(await builder.build_home(one)).sections[0].entries for one in ("U1", "U2")]
    assert len(author) == 2 and not any("决定" in one.card.title for one in author), "and no set of them is offered"
    assert len(decider) == 1
