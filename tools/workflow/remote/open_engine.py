"""Opens the engine that the settings name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import ClientSession, DummyCookieJar
from pydantic import SecretStr

from tools.spec import FrozenModel
from tools.workflow.remote.api import EngineApi, EngineName
from tools.workflow.remote.camunda import CamundaApi, OperatonApi
from tools.workflow.remote.flowable import FlowableApi
from tools.workflow.remote.rest_client import RestClient

APIS: Mapping[EngineName, Callable[[RestClient], EngineApi]] = {
    "operaton": OperatonApi,
    "camunda": CamundaApi,
    "flowable": FlowableApi,
}


class EngineAddress(FrozenModel):
    kind: EngineName
    url: str
    user: str = ""
    password: SecretStr = SecretStr("")
    users_file: Path | None = None
    timeout_s: float = 10.0


@asynccontextmanager
async def open_api(address: EngineAddress) -> AsyncIterator[tuple[RestClient, EngineApi]]:
    """Open an engine while the context is open. Nothing is sent to it yet."""
    # No cookies: a session of the engine must not outlive the login that is sent each time.
    async with ClientSession(cookie_jar=DummyCookieJar()) as session:
        rest = RestClient(session, address.url, address.user, address.password, address.timeout_s)
        yield rest, APIS[address.kind](rest)
