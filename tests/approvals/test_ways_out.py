"""An effect reaches the outside only through its gate's services, which check right before whether the effect is still
ours."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.core.errors import LeaseLost, StoreUnavailableError
from bot.core.held_lease import assert_may_send, bind_lease
from bot.core.records import EffectState
from bot.ops import since_copy
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from tests.harness.lanes import LANE, expire, hold, take
from tests.harness.memory_bot import Bot
from tests.harness.memory_mailer import MemoryMailer
from tests.harness.memory_platform import DM
from tests.harness.tools import build_gated_tool
from tests.stories.script import DONE, calls
from tools.cards.builders import build_effect_outcome, build_own_proposal
from tools.catalog import TOOLS
from tools.outside import Outside
from tools.spec import EffectPlace, FrozenModel, Gate, Privacy, Proposal, TextRef, ToolError, ToolOutcome
from tools.tool import Tool, ToolContext

ORDERS: list[str] = []
"""The orders that arrived outside."""


class OrderArgs(FrozenModel):
    address: str


async def propose_order(context: ToolContext, args: OrderArgs) -> Proposal:
    return build_own_proposal(context, args.model_dump(), TextRef(key="result.tasks", params={"n": 1}), ())


async def run_order(context: ToolContext, args: OrderArgs) -> ToolOutcome:
    async with context.require_outside().open_http() as http, http.post(args.address, data="order"):
        return build_effect_outcome({"ordered": True}, "result.tasks", "result.tasks", "order", {"n": 1})


ORDER = build_gated_tool("order", OrderArgs, run_order, prepare=propose_order, privacy=Privacy.PRIVATE)


@pytest.fixture
async def shop() -> AsyncIterator[str]:
    """Open a shop that notes orders, and redirects those to `/moved`; yield its address."""
    ORDERS.clear()

    async def take_order(request: web.Request) -> web.Response:
        ORDERS.append(await request.text())
        return web.Response()

    async def move(request: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect("/")

    app = web.Application()
    app.add_routes([web.post("/", take_order), web.post("/moved", move)])
    async with TestServer(app) as served:
        yield str(served.make_url("/"))


@pytest.mark.parametrize("path", ["", "moved"])
async def test_nothing_goes_out_once_the_lease_is_lost(redis: Redis, keys: Keys, shop: str, path: str) -> None:
    lanes = Lanes(redis, keys, lease_ms=1)
    bind_lease(await hold(lanes))
    outside = Outside(mailer=MemoryMailer(), assert_may_send=assert_may_send)
    async with outside.open_http() as http, http.post(shop + path, data="control"):
        assert ORDERS == ["control"]
    await expire(lanes, LANE)
    await take(lanes)
    with pytest.raises(LeaseLost):
        async with outside.open_http() as http, http.post(shop + path, data="late"):
            pass
    assert ORDERS == ["control"]


@pytest.mark.parametrize("is_away", [False, True])
async def test_an_order_goes_out_once_it_is_let_and_is_done_although_the_store_is_away_when_its_card_is_rewritten(
    redis: Redis, shop: str, is_away: bool
) -> None:
    """The cards of Feishu lie in the store."""
    order = replace(ORDER, is_idempotent=not is_away)
    bot = Bot(redis, [calls(("order", {"address": shop})), DONE], tools=(*TOOLS, order))
    await bot.send("order it")
    assert ORDERS == []
    away = bot.chat.fails[f"update {DM.channel}"] = [StoreUnavailableError("away")] * is_away
    await bot.press(bot.chat.cards()[0], "confirm")
    assert ORDERS == ["order"] and (await bot.load_approval()).effect is EffectState.DONE
    assert away == []


@pytest.mark.parametrize(
    "tool",
    [
        replace(ORDER, gate=Gate.NONE, effect_place=None, prepare=None, stored_args=None),
        replace(ORDER, prepare=run_order),
        replace(ORDER, effect_place=EffectPlace.ENGINE),
    ],
    ids=["a tool without a gate", "what prepares a card", "an effect that lies in the engine"],
)
async def test_nothing_else_has_one(redis: Redis, shop: str, tool: Tool) -> None:
    bot = Bot(redis, [calls(("order", {"address": shop})), DONE, ModelReply(text="no")], tools=(*TOOLS, tool))
    await bot.send("order it")
    for card in bot.chat.cards():
        await bot.press(card, "confirm")
        assert (await bot.load_approval()).effect is EffectState.FAILED
    assert ORDERS == []


def test_a_gate_goes_with_the_place_of_its_effect() -> None:
    for wrong in ({"effect_place": None}, {"gate": Gate.NONE}):
        with pytest.raises(ValueError, match="says where its effect lies"):
            replace(ORDER, **wrong)


def test_an_effect_outside_outlives_a_restored_store_though_it_may_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ORDER.is_idempotent
    monkeypatch.setattr(since_copy, "TOOLS", (*TOOLS, ORDER))
    kept = since_copy.list_kept_tools("embedded")
    assert {"start_process", "decide_task", "set_absence"} < kept and not kept & {"order", "send_email"}
    assert since_copy.list_kept_tools("flowable") == frozenset(), "its requests lie in another system"


async def test_control_without_the_question_a_late_order_arrives(shop: str) -> None:
    async def never_ask() -> None:
        return

    outside = Outside(mailer=MemoryMailer(), assert_may_send=never_ask)
    async with outside.open_http() as http, http.post(shop, data="late"):
        assert ORDERS == ["late"]
    with pytest.raises(ToolError):
        await run_order(ToolContext(None, None, None), OrderArgs(address=shop))  # type: ignore[arg-type]
