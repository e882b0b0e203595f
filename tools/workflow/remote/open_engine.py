"""Opens the engine that the settings name."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from aiohttp import ClientSession, DummyCookieJar
from pydantic import SecretStr

from tools.ports import Directory
from tools.spec import FrozenModel
from tools.workflow.engine.enrich import CommandEnricher, RequestLists
from tools.workflow.process.definition import Process
from tools.workflow.remote.camunda import CamundaApi
from tools.workflow.remote.engine import RemoteEngine
from tools.workflow.remote.engine_users import read_users
from tools.workflow.remote.flowable import FlowableApi
from tools.workflow.remote.key_value_store import KeyValueStore
from tools.workflow.remote.rest_client import RestClient

EngineKind = Literal["flowable", "camunda"]


class EngineAddress(FrozenModel):
    kind: EngineKind
    url: str
    user: str = ""
    password: SecretStr = SecretStr("")
    users_file: Path | None = None
    timeout_s: float = 10.0


@asynccontextmanager
async def open_engine(
    address: EngineAddress,
    marks: KeyValueStore,
    processes: Sequence[Process],
    directory: Directory,
    build_enricher: Callable[[RequestLists], CommandEnricher],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[RemoteEngine]:
    """Open the engine while the context is open. Nothing is sent to it yet. Raises `InvalidUsersError`."""
    table = read_users(address.users_file)
    # No cookies: a session of the engine must not outlive the login that is sent each time.
    async with ClientSession(cookie_jar=DummyCookieJar()) as session:
        rest = RestClient(session, address.url, address.user, address.password, address.timeout_s)
        api = FlowableApi(rest) if address.kind == "flowable" else CamundaApi(rest)
        yield RemoteEngine(api, marks, processes, directory, table, build_enricher, clock=clock)
