"""Hands and eyes of a person, for the people of a scenario: write, press, submit, and look at the result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from bot.dev.workspace import methods_files, views
from bot.dev.workspace.acts import WorkspaceActs
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json

T = TypeVar("T")


class WorkspaceDriver(WorkspaceActs):
    """Drives one workspace."""

    def __init__(self, workspace: Workspace, recheck_s: float | None = None) -> None:
        """`recheck_s` is the interval in seconds in which `wait_until` looks again without a change in the workspace,
        for somebody who waits for something elsewhere."""
        super().__init__(workspace)
        self.recheck_s = recheck_s

    def upload_file(self, user: str, name: str, content: bytes, *, is_external: bool = False) -> str:
        """Choose a file in the composer or a dialog; return its id. `is_external` marks a file stored with another
        service."""
        return methods_files.upload_file(self.ws, user, name, content, is_external=is_external).id

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
