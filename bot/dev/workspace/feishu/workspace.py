"""The workspace itself, with Feishu's ids and transports."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bot.dev.workspace.feishu.transports import LongConnection
from bot.dev.workspace.feishu.world import FeishuSetup, convert_world
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json, World, read_world

TOKEN_S, UUID_S = 7200.0, 3600.0
"""Lives of an access token and of the `uuid` of a message (s)."""


class FeishuWorkspace(Workspace):
    """One tenant with one app."""

    setup: FeishuSetup
    sockets: Any  # in place of Socket Mode
    sockets_class = LongConnection

    def __init__(self, setup: FeishuSetup, *, world: World | None = None, **more: Any) -> None:
        world = convert_world(world or read_world())
        world = replace(world, app=replace(world.app, app=setup.app_id))
        super().__init__(setup, world=world, **more)
        self.tokens: dict[str, float] = {}
        """Access token → when it ends."""
        self.sent_once: dict[str, tuple[float, Json]] = {}
        """`uuid` of a message → when it was sent, and what was answered."""
        self.old_cards: dict[str, list[Json]] = {}
        """Message → its cards before, which a screen that was not repainted still shows."""
        self.reactions: dict[str, tuple[str, str]] = {}
        """Reaction → message and emoji."""

    def create_timestamp(self) -> str:
        """Create a message id. Ids rise with time, so that unread messages can be counted by them."""
        self.state.create_timestamp(self.clock())
        return f"om_{self.state.last_stamp:032x}"

    def create_token(self) -> str:
        token = f"t-{secrets.token_hex(20)}"
        self.tokens[token] = self.clock() + TOKEN_S
        return token

    def remember_sent(self, uuid: str, make: Callable[[], Json]) -> Json:
        """Send a message, or return what was answered when a message with this `uuid` was sent within the hour."""
        at, answer = self.sent_once.get(uuid, (0.0, {}))
        if uuid and self.clock() - at < UUID_S:
            return answer
        answer = make()
        if uuid:
            self.sent_once[uuid] = (self.clock(), answer)
        return answer

    def build_event(self, event_type: str, event: Json) -> Json:
        header = {
            "event_id": secrets.token_hex(16),
            "event_type": event_type,
            "create_time": str(int(self.clock() * 1000)),
            "token": self.setup.verification_token,
            "app_id": self.setup.app_id,
            "tenant_key": self.app.team,
        }
        return {"schema": "2.0", "header": header, "event": event}

    def push_event(self, event_type: str, event: Json) -> str:
        """Deliver an event if the app subscribed to it; return its event id, or an empty text."""
        if event_type not in self.setup.events:
            return ""
        payload = self.build_event(event_type, event)
        id = str(payload["header"]["event_id"])
        self.delivery.deliver_event({"event_id": id, "payload": payload})
        return id
