"""The live feed of the page: changes and log lines, over one socket for each open page."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import web

from bot.dev.workspace.sockets import CLOSE_SECONDS
from bot.dev.workspace.workspace import Workspace, WorkspaceChange
from bot.dev.workspace.world import Json

MOST_BEHIND = 1000
"""Most frames that a page may be behind. With more it is disconnected, reconnects, and reloads everything."""


class PageFeed:
    """The feed of one page: its person's changes, and those of all rooms, whose unread messages the page counts."""

    def __init__(self, workspace: Workspace, person: str) -> None:
        self.ws, self.person = workspace, person
        self.frames: asyncio.Queue[Json] = asyncio.Queue(MOST_BEHIND)
        self.socket = web.WebSocketResponse(heartbeat=30, timeout=CLOSE_SECONDS)
        self.behind = False

    async def serve_socket(self, request: web.Request) -> web.WebSocketResponse:
        await self.socket.prepare(request)
        for line in self.ws.lines:
            self._enqueue_change(WorkspaceChange("log", line=line))
        self.ws.changes.listeners.append(self._enqueue_change)
        self.ws.feeds.add(self.socket)
        sender = asyncio.create_task(self.send_frames())
        try:
            async for _ in self.socket:
                pass
        finally:
            sender.cancel()
            self.ws.feeds.discard(self.socket)
            self.ws.changes.listeners.remove(self._enqueue_change)
            await asyncio.gather(sender, return_exceptions=True)
        return self.socket

    def _enqueue_change(self, change: WorkspaceChange) -> None:
        if change.what == "acks" or change.person not in ("", self.person):
            return
        frame = {"type": "changed", "what": change.what, "channel": change.channel}
        try:
            self.frames.put_nowait({"type": "log", "line": change.line} if change.line is not None else frame)
        except asyncio.QueueFull:
            self.behind = True

    async def send_frames(self) -> None:
        with suppress(ConnectionResetError):
            while not self.behind:
                await self.socket.send_json(await self.frames.get())
        await self.socket.close()
