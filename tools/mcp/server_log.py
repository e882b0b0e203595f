"""Logs the standard error of a local server: bounded lines, without secrets."""

from __future__ import annotations

import asyncio
import os
from typing import Protocol, TextIO

from tools.mcp.config import McpServer
from tools.mcp.server_text import clean_server_text

LINE, LINES = 500, 200
"""Most characters of a line, and most lines per run of a server. Further lines are read and dropped."""


class EventLogger(Protocol):
    """A method of a logger, such as `log.info`."""

    def __call__(self, event: str, **about: object) -> object: ...


class StderrLog:
    """Copies a child's standard error to the log. The child writes to `file` while the context is open."""

    def __init__(self, server: McpServer, log_event: EventLogger) -> None:
        self.server, self.report, self.lines = server, log_event, 0

    async def __aenter__(self) -> StderrLog:
        reading, writing = os.pipe()
        self.file: TextIO = os.fdopen(writing, "w")
        read = os.fdopen(reading, "rb", buffering=0)
        stream = asyncio.StreamReader(limit=LINE * 8)
        loop = asyncio.get_running_loop()
        try:
            self._transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), read)
        except BaseException:  # cancelled at the start: nobody else closes the two ends
            self.file.close()
            read.close()
            raise
        self._task = asyncio.create_task(self._copy_to_log(stream))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.file.close()
        self._task.cancel()
        self._transport.close()

    async def _copy_to_log(self, stream: asyncio.StreamReader) -> None:
        while not stream.at_eof():
            try:
                line = await stream.readuntil(b"\n")
            except asyncio.IncompleteReadError as rest:
                line = rest.partial
            except asyncio.LimitOverrunError as long:
                line = await stream.read(long.consumed or LINE)
            self.lines += 1
            if line.strip() and self.lines <= LINES:
                said = clean_server_text(self.server.mask_secrets(line.decode(errors="replace")), LINE)
                self.report("server.said", server=self.server.name, text=said)
