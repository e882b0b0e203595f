"""Checks an app on Feishu: what it may do, whether it is switched on, and whether events and presses can come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal
from uuid import uuid4

from bot.app.services import FeishuApp
from bot.core.errors import ChatRefusedError
from bot.core.i18n import translate
from bot.platforms.feishu.cards import build_button, build_card, build_text
from bot.platforms.feishu.channel import encode_content
from bot.platforms.feishu.client import FeishuClient, identify_bot, open_feishu_client
from bot.platforms.feishu.connection import explain_refusal
from bot.platforms.feishu.values import CancelValue
from bot.platforms.shared import list_mappings
from tools.platform_ids import PERSON_ID

Finding = tuple[Literal["ok", "warn", "fail"], str]

SCOPES: tuple[tuple[str, ...], ...] = (
    ("im:message:send_as_bot", "im:message"),
    ("im:message.p2p_msg:readonly", "im:message.p2p_msg"),
    ("im:message.group_at_msg:readonly", "im:message.group_at_msg", "im:message.group_msg"),
    ("im:message:readonly", "im:message"),
    ("im:resource",),
    ("im:chat:readonly", "im:chat"),
    ("im:chat.members:read", "im:chat"),
    ("contact:contact.base:readonly", "contact:contact:readonly_as_app"),
    ("contact:user.base:readonly", "contact:contact:readonly_as_app"),
    ("contact:user.email:readonly", "contact:contact:readonly_as_app"),
    ("contact:user.department:readonly", "contact:contact:readonly_as_app"),
    ("contact:user.employee:readonly", "contact:contact:readonly_as_app"),
    ("contact:department.base:readonly", "contact:contact:readonly_as_app"),
    ("tenant:tenant:readonly",),
)
"""Permissions that the bot cannot work without, each with wider ones that hold it."""
ENABLED, GRANTED = 2, 1
"""Feishu's numbers for an app that is switched on, and for a permission that is granted."""
CONSOLE = "developer console → your app"
TRAP = (
    "events and callbacks are subscribed each for itself, and Feishu does not tell which are: without the callback "
    "card.action.trigger everything looks healthy and no press ever comes. Look at {console} → Events & Callbacks, "
    "where both should stand on {mode}; `countersign doctor --press PERSON` sends somebody a card to try it"
)


async def check_feishu(app: FeishuApp, mode: Literal["long", "http"]) -> AsyncIterator[Finding]:
    """Yield findings as they come. Raises `ChatError`, `SettingsError`."""
    async with open_feishu_client(app.app_id, app.secret, app.url) as client:
        me = await identify_bot(client)
        yield "ok", f"tenant {me.tenant}, bot {me.name or me.open_id}"
        status = (await client.call("GET", "bot/v3/info")).get("bot", {}).get("activate_status")
        if status != ENABLED:
            cure = f"{CONSOLE} → Version Management: publish a version, and let an administrator approve it"
            yield "fail", f"the bot is not switched on in this tenant (activate_status {status}); {cure}"
        yield await _check_scopes(client)
        if mode == "long":
            try:
                await client.request_connection()
                yield "ok", "long connection: Feishu gives the app an address"
            except ChatRefusedError as refused:
                yield "fail", explain_refusal(refused)
        way = "long connection" if mode == "long" else "your address, …/feishu/events"
        yield "ok", TRAP.format(console=CONSOLE, mode=way)


async def _check_scopes(client: FeishuClient) -> Finding:
    try:
        rows = list_mappings((await client.call("GET", "application/v6/scopes")).get("scopes"))
    except ChatRefusedError as refused:
        return "warn", f"Feishu does not say which permissions the app has ({refused.code})"
    has = {one.get("scope_name") for one in rows if one.get("grant_status") == GRANTED}
    if lacking := [choices[0] for choices in SCOPES if not has & {*choices}]:
        cure = f"add them under {CONSOLE} → Permissions & Scopes, and publish a version"
        return "fail", f"permissions missing: {', '.join(lacking)}; {cure}"
    return "ok", f"permissions: all {len(SCOPES)} granted"


async def send_test_card(app: FeishuApp, person: str) -> Finding:
    """Send a person (open_id or e-mail address) a card with a button. The running bot rewrites it when it is pressed,
    and nothing else happens. Raises `ChatError`."""
    words = [[translate(f"feishu_check.{name}", one) for one in ("zh", "en")] for name in ("title", "text", "button")]
    title, text, label = map(" · ".join, words)
    card = build_card(title, [build_text(text), build_button(label, "primary", CancelValue(title=title))], title)
    kind = "open_id" if PERSON_ID.fullmatch(person) else "email"
    body = {"receive_id": person, "msg_type": "interactive", "content": encode_content(card), "uuid": uuid4().hex}
    async with open_feishu_client(app.app_id, app.secret, app.url) as client:
        try:
            await client.call("POST", "im/v1/messages", query={"receive_id_type": kind}, body=body)
        except ChatRefusedError as refused:
            return "fail", f"no card could be sent to {person} ({refused.code}): check the id, and who may use the app"
    return "ok", (
        f"a card was sent to {person}. Start the bot and press the button: if the card changes, presses come. If "
        f"Feishu shows an error, look at {CONSOLE} → Events & Callbacks → callback configuration"
    )
