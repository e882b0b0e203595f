"""What is outside the bot, with its troubles: the workspace and the mail server, in this process, on real sockets."""

import asyncio
import json
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bot.dev.mailbox import Fault, Mail, Mailbox
from bot.dev.workspace import server
from bot.dev.workspace.delivery import AppDelivery, AppTransport, DeliveryAttempt, DeliveryTiming, NotAcknowledgedError
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json
from tests.harness.app_calls import CALLS, AppCalls, Outcome
from tests.harness.card_blocks import build_shown
from tests.harness.hands import Hands, build_hands
from tests.harness.office import BOT_TOKEN, CHAT, open_workspace
from tests.harness.workspace_server import serve_workspace
from tests.qa.chaos.plan import Plan, Rates, dice

REDELIVERY_S = (0.3, 0.5, *(1.0 for _ in range(600)))
"""An event is brought again until somebody takes it: whatever is lost then, the bot has lost."""
LATE_S = 1.0  # how late a payload may come: a dialog opens no later than three seconds after its button
OUTCOMES: tuple[Outcome, ...] = (429, 500, "drop", "drop_after")
API = re.compile(r"/(?:api|open-apis|callback|ws)/")
POSTS = re.compile(r"/chat\.postMessage$|/im/v1/messages(?:/\w+/reply)?$")  # the paths on which a bot posts
SMTP: dict[str, float] = {"down": 0.4, "refuse_data": 0.1, "drop_before_data": 0.25, "drop_after_data": 0.25}
"""What goes wrong with a mail, as parts of the whole."""


class Troubles:
    """Small faults, as often as asked for, until it is calm. Shared by everything outside."""

    def __init__(self, seed: int, rates: Rates) -> None:
        self.rng, self.rates, self.calm = dice(seed, "troubles"), rates, False
        self.counts: Counter[str] = Counter()
        self.missed: defaultdict[str, float] = defaultdict(float)
        self.had: set[str] = set()
        self.away_until = 0.0

    def happens(self, what: str, percent: float) -> bool:
        """True as often as this, and not much later than it should be; then it is counted. Once it is calm, only what
        was due and has never happened."""
        kind = what.partition(" ")[0]
        self.missed[kind] += percent
        due = self.missed[kind] >= 100 and not (self.calm and kind in self.had)
        if not due and (self.calm or self.rng.uniform(0, 100) >= percent):
            return False
        self.missed[kind] = 0.0
        self.had.add(kind)
        self.counts[what] += 1
        return True


class ApiFaults(AppCalls):
    """Faults of the Web API, drawn instead of ordered."""

    def __init__(self, troubles: Troubles) -> None:
        super().__init__()
        self.troubles = troubles

    def take_fault(self, method: str) -> Outcome | None:
        if not self.troubles.calm and asyncio.get_running_loop().time() < self.troubles.away_until:
            self.troubles.counts["api away"] += 1
            return 500
        if self.troubles.happens("api", self.troubles.rates.api):
            return self.troubles.rng.choice(OUTCOMES)
        return super().take_fault(method)


class Careless:
    """A carrier that keeps an envelope back, brings it twice, or does not hear that it was taken. `again`: second
    deliveries under way."""

    def __init__(self, carrier: AppTransport, troubles: Troubles, ack_s: float) -> None:
        self._carrier, self._troubles, self._ack_s = carrier, troubles, ack_s
        self.again: set[asyncio.Task[None]] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._carrier, name)

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Json:
        happens, rates = self._troubles.happens, self._troubles.rates
        if happens("withheld", rates.withheld):
            await asyncio.sleep(self._ack_s)
            raise NotAcknowledgedError("timeout")
        if parcel.kind == "events_api" and happens("lost", rates.lost):
            raise NotAcknowledgedError("timeout", final=True)
        if happens("late", rates.late):
            await asyncio.sleep(self._troubles.rng.uniform(0.05, LATE_S))
        self._troubles.counts["redelivered"] += parcel.attempt > 0
        if happens("twice", rates.twice):
            task = asyncio.create_task(self._once_more(parcel))
            self.again.add(task)
            task.add_done_callback(self.again.discard)
        answer = await self._carrier.deliver_payload(parcel)
        if happens("unheard", rates.unheard):
            await asyncio.sleep(self._ack_s)
            raise NotAcknowledgedError("timeout")
        return answer

    async def _once_more(self, parcel: DeliveryAttempt) -> None:
        await asyncio.sleep(self._troubles.rng.choice((0.0, 0.01, 0.5)))
        try:
            await self._carrier.deliver_payload(parcel)
        except NotAcknowledgedError:
            self._troubles.counts["twice, unanswered"] += 1

    async def close(self) -> None:
        for task in list(self.again):
            task.cancel()
        await self._carrier.close()


class Telling(AppDelivery):
    """A delivery that can be waited for."""

    def __init__(
        self, carrier: AppTransport, timing: DeliveryTiming, waiting: dict[str, Json], changed: Callable[[], None]
    ) -> None:
        super().__init__(carrier, timing, waiting, changed)
        self.ends: dict[str, asyncio.Future[None]] = {}

    def taken(self, event: str) -> asyncio.Future[None]:
        """Done once an app has acknowledged the event."""
        end = self.ends.setdefault(event, asyncio.get_running_loop().create_future())
        if event not in self.waiting and not end.done():
            end.set_result(None)
        return end

    async def _run_delivery(self, payload: Json) -> None:
        await super()._run_delivery(payload)
        self.taken(payload["event_id"])


class BadMailbox(Mailbox):
    """A mail server that refuses, and breaks before and after the text. Keeps everything."""

    def __init__(self, troubles: Troubles) -> None:
        super().__init__()
        self.troubles, self.kept = troubles, list[Mail]()
        self.on_change = self.kept.append

    def consume_fault(self, fault: Fault) -> bool:
        part = SMTP.get(fault, 0.0)
        return self.troubles.happens(f"smtp {fault}", self.troubles.rates.smtp * part) or super().consume_fault(fault)


class Callers:
    """Knows which bot makes a call, since each has an address of its own (`/bot2/api/…`), and can meet the next one in
    the middle of it: before it is carried out, or after it, the answer not yet sent. `posters`: (channel, message) →
    the bot that has posted it."""

    def __init__(self) -> None:
        self.posters: dict[tuple[str, str], int] = {}
        self._traps: list[tuple[bool, Callable[[int], None]]] = []

    async def caught(self, *, after: bool, seconds: float, act: Callable[[int], None]) -> bool:
        """Acts on the next bot that posts, in the middle of that; False if none does in time."""
        done = asyncio.Event()

        def spring(bot: int) -> None:
            act(bot)
            done.set()

        self._traps.append((after, spring))
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), seconds)
        self._traps = [trap for trap in self._traps if trap[1] is not spring]
        return done.is_set()

    def watching(self) -> Middleware:
        """What stands around every request to the workspace."""

        @web.middleware
        async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
            bot = int(request.match_info.get("bot", -1))
            if bot < 0 or request.method != "POST" or not POSTS.search(request.path):
                return await handler(request)
            self._spring(bot, after=False)
            response = await handler(request)
            told = json.loads(response.body) if isinstance(response, web.Response) and response.body else {}  # type: ignore[arg-type]
            if told.get("ok"):
                self.posters[str(told["channel"]), str(told["ts"])] = bot
            elif CHAT == "feishu" and told.get("code") == 0:
                self.posters[str(told["data"]["chat_id"]), str(told["data"]["message_id"])] = bot
            self._spring(bot, after=True)
            return response

        return watch

    def _spring(self, bot: int, *, after: bool) -> None:
        for trap in [trap for trap in self._traps if trap[0] == after][:1]:
            self._traps.remove(trap)
            trap[1](bot)


@dataclass
class Outside:
    """The workspace with people's hands in it, and the mail server. `keys_file`: where Feishu's bots note what they
    call each post: Feishu is told the end of that only."""

    driver: Hands
    carrier: Careless
    callers: Callers
    troubles: Troubles
    mailbox: BadMailbox
    address: str
    smtp_url: str
    keys_file: Path = field(default_factory=Path)
    _keys: dict[str, str] = field(default_factory=dict)

    @property
    def ws(self) -> Workspace:
        return self.driver.ws

    @property
    def token(self) -> str:
        """With which somebody who looks from outside reads the chat."""
        return self.ws.create_token() if isinstance(self.ws, FeishuWorkspace) else BOT_TOKEN

    def taken(self, event: str) -> asyncio.Future[None]:
        assert isinstance(self.ws.delivery, Telling)
        return self.ws.delivery.taken(event)

    @property
    def under_way(self) -> int:
        """Deliveries that no bot has acknowledged yet."""
        return len(self.ws.delivery.waiting) + len(self.carrier.again)

    def away(self, seconds: float) -> None:
        """The Web API answers nothing but 500 for so long."""
        self.troubles.away_until = asyncio.get_running_loop().time() + seconds

    def posts(self) -> list[tuple[str, dict[str, Any]]]:
        """(channel, message) of everything the bot has said."""
        bot, said = self.ws.app.user, ((room, self.driver.list_messages(room)) for room in self.ws.state.rooms)
        return [(room, self._name(one)) for room, listed in said for one in listed if one.get("user") == bot]

    def show(self, message: dict[str, Any]) -> dict[str, Any]:
        """A message as Slack would have it: with blocks, and with what the bot calls it."""
        return self._name(build_shown(message) if CHAT == "feishu" else message)

    def _name(self, message: dict[str, Any]) -> dict[str, Any]:
        if CHAT != "feishu":
            return message
        uuid = message.get("uuid", "")
        if uuid and uuid not in self._keys and self.keys_file.is_file():
            self._keys |= dict(line.split(" ", 1) for line in self.keys_file.read_text().splitlines())
        key, _, part = self._keys.get(uuid, "").rpartition(":")
        payload = {"key": key, "part": part} if part.isdigit() else {}  # a notice for one person has no key
        return {**message, "metadata": {"event_payload": payload}}


@asynccontextmanager
async def outside(plan: Plan) -> AsyncIterator[Outside]:
    troubles = Troubles(plan.wanted.seed, plan.wanted.rates.only(plan.wanted.faults))
    timing = DeliveryTiming(redelivery=REDELIVERY_S)
    workspace = open_workspace(timing, world=plan.world)
    CALLS[workspace] = ApiFaults(troubles)
    carrier = Careless(workspace.sockets, troubles, timing.ack)
    workspace.delivery = Telling(carrier, timing, workspace.state.waiting, partial(workspace.notify_change, "acks"))
    mailbox, callers, driver = BadMailbox(troubles), Callers(), build_hands(workspace, recheck_s=0.1)
    smtp_url, routes = f"smtp://127.0.0.1:{await mailbox.start()}", server.build_routes(workspace)
    bots = [web.route(one.method, f"/bot{{bot}}{one.path}", one.handler) for one in routes if API.match(one.path)]
    try:
        async with serve_workspace(workspace, callers.watching(), more=bots) as address:
            yield Outside(driver, carrier, callers, troubles, mailbox, address, smtp_url)
    finally:
        await mailbox.close()
