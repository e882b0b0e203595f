"""Tells administrators in chat about problems that need one of them, even while the lanes stand still."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from dataclasses import dataclass

from bot.chat.messages import Post
from bot.core import logs
from bot.core.errors import NEEDS_ADMINISTRATOR, ChatError, ChatRefusedError, StoreUnavailableError
from bot.core.i18n import translate
from bot.features.contract import Core, Feature
from bot.queue.store_watch import PauseReason
from tools.spec import TextRef

SILENCE_MS = 3_600_000
"""Time in which an alert is not repeated (ms), whichever process notices it."""
MAX_TOLD = 20
"""Most administrators who get an alert."""
JOURNAL_KINDS = ("alert",)
ALERTED_KINDS = frozenset(
    {"item.dead", "effect.unknown", "model.down", "model.tools_refused", "approval.refused", "app.shared"}
)
"""Kinds of journal records that need an administrator."""
log = logs.get_logger(__name__)


def build(core: Core) -> Feature:
    alerts = AdministratorAlerts(core)
    core.stores.watch.report = alerts.report_pause
    return Feature(jobs=(alerts.watch_problems,))


@dataclass(frozen=True, slots=True)
class AdministratorAlerts:
    core: Core

    async def send_alert(self, code: str, **params: object) -> None:
        """Post `alert.<code>` in the DM of each administrator. Never fails: the problem is in the log in any case, and
        an alert that could not be sent is sent the next time."""
        stores, chat = self.core.stores, self.core.platform.chat
        key = stores.keys.build_key(0, "alerted", code)
        try:
            if not await stores.redis.set(key, "1", nx=True, px=SILENCE_MS):
                return
            await stores.journal.append_record("alert", "alert", text=translate(f"alert.{code}", "en", **params))
            people = await self.core.platform.directory.list_people()
            for person in [one for one in people if one.is_administrator and one.active][:MAX_TOLD]:
                post = Post(translate(f"alert.{code}", person.language, **params))
                try:
                    place = await chat.open_dm(person.id)
                    await chat.post_message(place, post, key=f"alert:{code}:{secrets.token_hex(6)}")
                except ChatRefusedError as refused:
                    log.warning("dm.not_reached", person=person.id, error=refused.code)
        except (ChatError, StoreUnavailableError) as failed:
            log.warning("alert not sent", code=code, reason=str(failed))
            with suppress(StoreUnavailableError):
                await stores.redis.delete(key)

    async def report_pause(self, reason: PauseReason, offset_ms: int) -> None:
        """Send the alert for a finding of `StoreWatch`. When work goes on, the next alert may come at once."""
        stores = self.core.stores
        match reason:
            case PauseReason.NONE:
                try:
                    for code in ("clock", "held"):
                        await stores.redis.delete(stores.keys.build_key(0, "alerted", code))
                except StoreUnavailableError as failed:
                    log.warning("alerts not forgotten", reason=str(failed))
            case PauseReason.BACKUP:
                pass
            case PauseReason.CLOCK:
                await self.send_alert("clock", seconds=abs(offset_ms) // 1000)
            case _:
                await self.send_alert("held", why=TextRef(key=f"restored.{reason.value}"))

    async def watch_problems(self) -> None:
        """Tell of a pause that this process began with, and of journal records that need an administrator, until the
        process stops. Every process looks; each alert comes once."""
        stores = self.core.stores
        watch, since_ms = stores.watch, stores.clock.now_ms()
        if watch.is_paused:
            await self.report_pause(watch.reason, watch.offset_ms)
        while True:
            await asyncio.sleep(self.core.timing.alert_pause_s)
            async for record in stores.journal.stream_records(since=since_ms, kinds=ALERTED_KINDS):
                since_ms = max(since_ms, record.at_ms + 1)
                match record.kind:
                    case "item.dead":
                        await self.send_alert("dead", id=record.more.get("item", ""))
                    case "effect.unknown":
                        await self.send_alert("unknown", card=record.more.get("approval", ""))
                    case "approval.refused" if record.more.get("foreign"):
                        await self.send_alert("foreign_card", card=record.more.get("approval", ""))
                    case "model.tools_refused":
                        await self.send_alert("tools_refused", tools=record.text, why=record.more.get("said", ""))
                    case "model.down" if record.more.get("why") in NEEDS_ADMINISTRATOR:
                        await self.send_alert("model", why=record.more.get("said", ""))
                    case "app.shared":
                        await self.send_alert("shared", n=record.more.get("n", ""))
