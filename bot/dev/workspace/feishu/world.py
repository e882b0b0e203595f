"""The demo's people and rooms with Feishu's ids, and the installation of the app there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from bot.dev.workspace.delivery import DeliveryTiming
from bot.dev.workspace.workspace import WorkspaceSetup
from bot.dev.workspace.world import World

APP_ID = "cli_a0localfeishu01"
TENANT = "t0local"
SCOPES = frozenset(
    {
        *("application:application:self_manage", "tenant:tenant:readonly"),
        *("im:message:send_as_bot", "im:message:readonly", "im:message:update", "im:message:recall"),
        *("im:message.p2p_msg:readonly", "im:message.group_at_msg:readonly", "im:message.group_msg"),
        *("im:message.reactions:write_only", "im:resource", "im:chat:readonly", "im:chat.members:read"),
        *("contact:contact.base:readonly", "contact:user.base:readonly", "contact:user.employee:readonly"),
        *("contact:user.department:readonly", "contact:user.email:readonly", "contact:user.id:readonly"),
        *("contact:user.employee_id:readonly", "contact:department.base:readonly"),
    }
)
EVENTS = frozenset(
    {
        *("im.message.receive_v1", "im.message.recalled_v1", "im.message.updated_v1", "card.action.trigger"),
        *("im.chat.access_event.bot_p2p_chat_entered_v1", "application.bot.menu_v6"),
        *("contact.user.created_v3", "contact.user.updated_v3", "contact.user.deleted_v3"),
    }
)


@dataclass(frozen=True, slots=True)
class FeishuSetup(WorkspaceSetup):
    """Installation of the app: its credentials, scopes, events and menu. Without an encrypt key, callbacks come in
    plain text and carry the verification token."""

    bot_token: str = field(default="", repr=False)
    app_token: str = field(default="", repr=False)
    commands: tuple[str, ...] = ()
    shortcuts: Any = ()
    scopes: frozenset[str] = SCOPES
    events: frozenset[str] = EVENTS
    platform: str = "feishu"
    timing: DeliveryTiming = field(default_factory=lambda: DeliveryTiming(redelivery=(1.5, 30.0, 360.0, 2160.0)))
    """The platform's own pauses are ten times as long."""
    app_id: str = APP_ID
    app_secret: str = field(default="", repr=False)
    encrypt_key: str = field(default="", repr=False)
    verification_token: str = field(default="local-verification", repr=False)
    menu: tuple[tuple[str, str], ...] = (
        ("home", "主页 Home"),
        ("request", "申请 Request"),
        ("request:leave", "请假 Leave"),
        ("request:expense", "报销 Expense"),
    )


def convert_id(id: str) -> str:
    """Return Feishu's id of a person or a room of the demo, with seven characters at least. Other ids stay."""
    kind = {"U": "ou_", "C": "oc_", "G": "oc_"}.get(id[:1])
    return f"{kind}{id[1:].lower():0<7}" if kind else id


def convert_world(world: World) -> World:
    """Return the world with Feishu's ids. The bot's id is `ou_bot0000`."""
    return replace(
        world,
        app=replace(world.app, team=TENANT, user="ou_bot0000", bot="ou_bot0000", app=APP_ID),
        people=tuple(
            replace(one, id=convert_id(one.id), fields={name: convert_id(said) for name, said in one.fields.items()})
            for one in world.people
        ),
        rooms=tuple(
            replace(one, id=convert_id(one.id), members=[*map(convert_id, one.members)]) for one in world.rooms
        ),
    )
