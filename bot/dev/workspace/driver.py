"""Hands of a person, for tests: write, press, submit, cause faults, and look at the result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from bot.dev.workspace import methods_files, views
from bot.dev.workspace.acts import ActResult, WorkspaceActs, get_own_view
from bot.dev.workspace.faults import Outcome
from bot.dev.workspace.sockets import EnvelopeAck
from bot.dev.workspace.workspace import WebApiCall, Workspace
from bot.dev.workspace.world import Json

T = TypeVar("T")


class WorkspaceDriver(WorkspaceActs):
    """Drives one workspace."""

    def __init__(self, workspace: Workspace, recheck_s: float | None = None) -> None:
        """`recheck_s` is the interval in seconds in which `wait_until` looks again without a change in the workspace,
        for tests that wait for something elsewhere."""
        super().__init__(workspace)
        self.recheck_s = recheck_s

    # Acts of people

    async def mention_bot(
        self, user: str, channel: str, text: str, thread_ts: str | None = None, *, files: Sequence[str] = ()
    ) -> str:
        """Send a message addressed to the bot: `@Countersign text`."""
        return await self.send_message(user, channel, f"@{self.ws.app.real_name} {text}", thread_ts, files=files)

    def upload_file(self, user: str, name: str, content: bytes, *, is_external: bool = False) -> str:
        """Choose a file in the composer or a dialog; return its id. `is_external` marks a file stored with another
        service."""
        return methods_files.upload_file(self.ws, user, name, content, is_external=is_external).id

    async def forge_view_button(self, user: str, view_id: str, action_id: str, value: str) -> ActResult:
        """Press a button that is not on the Home tab."""
        button = {"type": "button", "action_id": action_id, "value": value, "text": {"type": "plain_text", "text": "x"}}
        row = {"type": "actions", "block_id": f"forged:{action_id}:{value}", "elements": [button]}
        get_own_view(self.ws, user, view_id)["blocks"].append(row)
        return await self.click_view_button(user, view_id, action_id, value=value)

    # Faults

    async def disconnect_sockets(self, reason: str = "refresh_requested") -> None:
        """Send every socket a disconnect frame (`refresh_requested`, `link_disabled`, …) and end it."""
        await self.ws.sockets.disconnect_sockets(reason)

    async def drop_sockets(self) -> None:
        """Close every socket without a disconnect frame."""
        await self.ws.sockets.drop_sockets()

    def fail_next_call(self, method: str, outcome: Outcome, times: int = 1) -> None:
        """Make the next calls of a method fail: an error name, 429, 500, `drop` or `drop_after`."""
        self.ws.faults.fail_next_call(method, outcome, times)

    def delay_answers(self, seconds: float, *methods: str) -> None:
        """Delay all later answers of these methods, or of all methods, by so many seconds."""
        self.ws.faults.delays_s.update(dict.fromkeys(methods or ("",), seconds))

    def hold_next_acks(self, times: int = 1) -> None:
        """Drop the next acknowledgements, so that those events come again."""
        self.ws.faults.hold_next_acks(times)

    def redeliver_event(self, event_id: str) -> None:
        """Deliver an event once more with an unchanged event id, as if the platform had lost count."""
        self.ws.delivery.deliver_event(
            next(one for one in reversed(self.ws.delivery.delivered_events) if one["event_id"] == event_id)
        )

    # Results

    @property
    def calls(self) -> list[WebApiCall]:
        return list(self.ws.calls)

    def list_call_arguments(self, method: str) -> list[Json]:
        """List the arguments of a method's successful calls."""
        return [call.args for call in self.calls if call.method == method and not call.error]

    @property
    def acks(self) -> list[EnvelopeAck]:
        return list(self.ws.sockets.acks)

    @property
    def sent_envelopes(self) -> list[Json]:
        """Envelopes sent over sockets."""
        return list(self.ws.sockets.sent)

    @property
    def events(self) -> list[Json]:
        """Event payloads given to delivery, in order (the last 1,000)."""
        return list(self.ws.delivery.delivered_events)

    @property
    def homes(self) -> Mapping[str, Json]:
        return self.ws.state.homes

    def get_dm_id(self, user: str) -> str:
        """Return the id of the DM between a person and the bot."""
        return self.ws.get_person(user).dm_id

    def list_messages(self, channel: str) -> list[Json]:
        """List every message of a room, oldest first, threads included."""
        return list(self.ws.state.rooms[channel].messages.values())

    def list_old_blocks(self) -> list[list[Json]]:
        """List what the app's messages showed before they were rewritten."""
        return [blocks for past in self.ws.state.old_blocks.values() for blocks in past]

    def list_thread_messages(self, channel: str, ts: str) -> list[Json]:
        """List a thread, its first message included."""
        return [m for m in self.list_messages(channel) if ts in (m["ts"], m.get("thread_ts"))]

    def list_ephemerals(self, user: str) -> list[Json]:
        """List the messages that only this person sees."""
        return list(self.ws.state.private.get(user, []))

    def list_open_views(self, user: str) -> list[Json]:
        """List the dialogs open in front of a person, the top one last."""
        return [self.ws.state.views[id] for id in self.ws.state.stacks.get(user, [])]

    def find_top_view(self, user: str) -> Json | None:
        return views.find_top_view(self.ws, user)

    async def wait_until(self, predicate: Callable[[], T], timeout: float = 20.0) -> T:
        """Wait until the predicate is true, checked at every change; return its value. Raises `TimeoutError` with the
        last messages."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        while True:
            bell = self.ws.changes.next_change
            if found := predicate():
                return found
            if (left_s := end - loop.time()) <= 0:
                raise TimeoutError(f"nothing came of it within {timeout} s; last said: {self.describe_last_messages()}")
            with suppress(TimeoutError):
                await asyncio.wait_for(bell.wait(), min(left_s, self.recheck_s or left_s))

    async def wait_for_sockets(self, sockets: int = 1, timeout: float = 60.0) -> None:
        """Wait until that many sockets are up."""
        await self.wait_until(lambda: len(self.ws.sockets.list_live_links()) >= sockets, timeout)

    def describe_last_messages(self) -> Sequence[str]:
        said = [m for room in self.ws.state.rooms.values() for m in room.messages.values()]
        said.sort(key=lambda message: str(message["ts"]))
        return [f"{m['user']}: {m.get('text', '')[:120]}" for m in said[-5:]]
