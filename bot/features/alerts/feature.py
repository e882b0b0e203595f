"""Tells administrators in chat about problems that need one of them, even while the lanes stand still."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
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
LOOK_BACK_MS = 300_000
"""Age of the oldest problem that is told after a start (ms), so that a restart or an outage of the store hides none."""
MAX_TOLD = 20
"""Most administrators who get an alert."""
JOURNAL_KINDS = ("alert",)
ALERTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "item.dead": ("dead", {"id": "item"}),
    "effect.unknown": ("unknown", {"card": "approval"}),
    "approval.refused": ("foreign_card", {"card": "approval"}),
    "model.tools_refused": ("tools_refused", {"tools": "text", "why": "said"}),
    "model.down": ("model", {"why": "said"}),
    "app.shared": ("shared", {"n": "n"}),
}
"""Kind of journal records that need an administrator → their alert, and its parameters by the record's fields."""
log = logs.get_logger(__name__)


def build(core: Core) -> Feature:
    alerts = AdministratorAlerts(core)
    core.stores.watch.report = alerts.report_pause
    return Feature(jobs=(alerts.watch_problems,))


@dataclass(frozen=True, slots=True)
class AdministratorAlerts:
    core: Core

    async def send_alert(self, code: str, **params: object) -> bool:
        """Post `alert.<code>` in the DM of each administrator. Never fails: the problem is in the log in any case.
        Returns False if the platform or the store was away and nobody was told; the alert may be sent again at once."""
        stores, chat, is_told, is_away = self.core.stores, self.core.platform.chat, False, False
        key = stores.keys.build_key(0, "alerted", code)
        try:
            if not await stores.redis.set(key, "1", nx=True, px=SILENCE_MS):
                return True
            people = await self.core.platform.directory.list_people()
            for person in [one for one in people if one.is_administrator and one.active][:MAX_TOLD]:
                post = Post(translate(f"alert.{code}", person.language, **params))
                try:
                    place = await chat.open_dm(person.id)
                    await chat.post_message(place, post, key=f"alert:{code}:{secrets.token_hex(6)}")
                    is_told = True
                except ChatError as failed:
                    is_away = is_away or not isinstance(failed, ChatRefusedError)
                    log.warning("dm.not_reached", person=person.id, error=failed.code)
            if is_told or not is_away:
                await stores.journal.append_record("alert", "alert", text=translate(f"alert.{code}", "en", **params))
                return True
        except (ChatError, StoreUnavailableError) as failed:
            log.warning("alert not sent", code=code, reason=str(failed))
        with suppress(StoreUnavailableError):
            await stores.redis.delete(key)
        return False

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
        watch, since_ms = stores.watch, stores.clock.now_ms() - LOOK_BACK_MS
        if watch.is_paused:
            await self.report_pause(watch.reason, watch.offset_ms)
        while True:
            await asyncio.sleep(self.core.timing.alert_pause_s)
            async for record in stores.journal.stream_records(since=since_ms, kinds=ALERTS):
                about, (code, fields) = {"text": record.text, **record.more}, ALERTS[record.kind]
                is_ours = record.kind == "approval.refused" and not about.get("foreign")
                is_passing = record.kind == "model.down" and about.get("why") not in NEEDS_ADMINISTRATOR
                params = {name: about.get(one, "") for name, one in fields.items()}
                if not (is_ours or is_passing or await self.send_alert(code, **params)):
                    break  # the next pass begins with it
                since_ms = max(since_ms, record.at_ms + 1)
