"""Opening the engine that the settings name."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from aiohttp import ClientSession, DummyCookieJar
from pydantic import SecretStr

from tools.ports import Directory
from tools.spec import Frozen
from tools.workflow.completing import Completing, Lists
from tools.workflow.process import Process
from tools.workflow.remote.camunda import Camunda
from tools.workflow.remote.engine import RemoteEngine
from tools.workflow.remote.flowable import Flowable
from tools.workflow.remote.marks import Marks
from tools.workflow.remote.rest import Rest
from tools.workflow.remote.users import read_users

Kind = Literal["flowable", "camunda"]


class Address(Frozen):
    """Where the engine is, and who we are there."""

    kind: Kind
    url: str
    user: str = ""
    password: SecretStr = SecretStr("")
    users_file: Path | None = None
    timeout_s: float = 10.0


@asynccontextmanager
async def open_engine(
    address: Address,
    marks: Marks,
    processes: Sequence[Process],
    directory: Directory,
    completing: Callable[[Lists], Completing],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[RemoteEngine]:
    """The engine, for as long as the context is open. Nothing is asked of it yet. Raises `UsersRefused`."""
    table = read_users(address.users_file)
    # No cookies: a session of the engine's must not outlive the login that is sent each time.
    async with ClientSession(cookie_jar=DummyCookieJar()) as session:
        rest = Rest(session, address.url, address.user, address.password, address.timeout_s)
        api = Flowable(rest) if address.kind == "flowable" else Camunda(rest)
        yield RemoteEngine(api, marks, processes, directory, table, completing, clock=clock)
