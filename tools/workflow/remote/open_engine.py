"""Opens the engine that the settings name; says whether it can be used as it is, and how to mend what is wrong, in
English, for administrators."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

from aiohttp import ClientSession, DummyCookieJar
from pydantic import SecretStr

from tools.spec import FrozenModel, ToolError
from tools.workflow.process.definition import Process, load_shipped_processes
from tools.workflow.remote.api import EngineApi, EngineName
from tools.workflow.remote.camunda import CamundaApi, OperatonApi
from tools.workflow.remote.flowable import FlowableApi
from tools.workflow.remote.process_versions import require_same_meaning
from tools.workflow.remote.rest_client import RestClient, reject_unreadable

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


CAMUNDA_PATH, FLOWABLE_PATH = "…/engine-rest", "…/flowable-rest/service or …/process-api"
ADVICE = {
    "engine_down": "it cannot be reached: check ENGINE_URL, and whether it runs",
    "engine_refused": "it refuses the login: check ENGINE_USER and ENGINE_PASSWORD",
    "engine_absent": "something answers, but not this engine: check the path of ENGINE_URL ({url})",
    "engine_unreadable": "something answers that is not this engine: check WORKFLOW_ENGINE and ENGINE_URL ({url})",
}
"""Code of an error → what to do."""
KEPT_DAYS = 365
"""The balances of a year count its ended requests."""
LONG_LOCK = timedelta(minutes=1)
"""A job that was made before this and is still locked belongs to an engine that was killed, or takes very long."""
ROWS = 100
log = logging.getLogger(__name__)


class EngineFinding(NamedTuple):
    level: Literal["ok", "warn", "fail"]
    text: str


async def check_engine(address: EngineAddress, processes: Sequence[Process]) -> list[EngineFinding]:
    """Check the engine and these processes in it. Nothing is changed there."""
    findings: list[EngineFinding] = []
    async with open_api(address) as (rest, api):
        name = address.kind.capitalize()
        try:
            deployed = [(process, await api.find_definition_id(process.definition.key)) for process in processes]
            keys = [process.definition.key for process in processes]
            version, others = await (_check_flowable if address.kind == "flowable" else _check_camunda)(rest, keys)
            findings.append(EngineFinding("ok", f"{name} {version} answers and takes the login"))
            for process, definition in deployed:
                findings.append(await _check_definition(rest, api, process, definition))
            findings += others
        except ToolError as wrong:
            path = FLOWABLE_PATH if address.kind == "flowable" else CAMUNDA_PATH
            cure = ADVICE.get(wrong.code, wrong.text).format(url=path)
            findings.append(EngineFinding("fail", f"{name}: {cure}"))
    return findings


async def log_engine_state(address: EngineAddress, processes: Sequence[Process]) -> None:
    """Log what is to be known of an engine at the start."""
    for level, text in await check_engine(address, processes):
        log.log(logging.DEBUG if level == "ok" else logging.WARNING, "workflow engine: %s", text)


@reject_unreadable
async def _check_definition(rest: RestClient, api: EngineApi, process: Process, definition: str) -> EngineFinding:
    try:
        await require_same_meaning(api, definition, process)
    except ToolError as wrong:
        if wrong.code != "not_deployed":
            raise
        is_shipped = any(process.version == shipped.version for shipped in load_shipped_processes())
        name = process.key if is_shipped else f"{process.key}.bpmn"
        return EngineFinding("fail", f"{wrong.text}: countersign processes deploy {name}")
    text = f"{process.key} is deployed, and means what ours means"
    if api.extension_name == "flowable":
        return EngineFinding("ok", text)
    days = (await rest.read_json("process-definition", definition))["historyTimeToLive"]
    if days is None:
        return EngineFinding("ok", f"{text}; its ended requests stay")
    text += f"; its ended requests stay {days} days (historyTimeToLive)"
    if int(days) >= KEPT_DAYS:
        return EngineFinding("ok", text)
    return EngineFinding("warn", f"{text}, too few for the balances of a year: {KEPT_DAYS} are needed")


@reject_unreadable
async def _check_camunda(rest: RestClient, keys: Sequence[str]) -> tuple[str, list[EngineFinding]]:
    """The version, and what is wrong with history and jobs."""
    given_up = 0
    for key in keys:
        query = {"noRetriesLeft": "true", "processDefinitionKey": key}
        given_up += int((await rest.read_json("job", "count", query=query))["count"])
    counts = [(await rest.read_json(*path, "variable-instance", "count"))["count"] for path in ((), ("history",))]
    return str((await rest.read_json("version"))["version"]), _report_problems(counts, given_up)


@reject_unreadable
async def _check_flowable(rest: RestClient, keys: Sequence[str]) -> tuple[str, list[EngineFinding]]:
    """Do the same for Flowable, and find locked jobs: a killed Flowable leaves its locks for an hour, and its requests
    wait that long."""
    jobs, ours = dict[str, list[dict[str, Any]]](), tuple(f"{key}:" for key in keys)
    for kind in ("jobs", "deadletter-jobs"):
        rows = (await rest.read_json("management", kind, query={"size": ROWS}))["data"]
        jobs[kind] = [row for row in rows if str(row["processDefinitionId"]).startswith(ours)]
    kinds = (("runtime", "variable-instances"), ("history", "historic-variable-instances"))
    counts = [(await rest.read_json(*path, query={"size": 1}))["total"] for path in kinds]
    findings = _report_problems(counts, len(jobs["deadletter-jobs"]))
    for job in jobs["jobs"]:
        if job.get("lockOwner") and datetime.fromisoformat(job["createTime"]) < datetime.now(UTC) - LONG_LOCK:
            until = datetime.fromisoformat(job["lockExpirationTime"]).astimezone(UTC)
            cure = f'if that engine was killed, run it now: POST management/jobs/{job["id"]} {{"action": "execute"}}'
            text = f"a job of {job['processInstanceId']} is locked until {until:%H:%M} UTC; {cure}"
            findings.append(EngineFinding("warn", text))
    return str((await rest.read_json("management", "engine"))["version"]), findings


def _report_problems(counts: Sequence[int], given_up: int) -> list[EngineFinding]:
    """`counts`: of variables, and of those in the history. No engine tells its history level, but the variables of
    running requests have to be there."""
    history = "it keeps no variables of ended requests: set its history level to audit or full"
    jobs = f"jobs that it has given up: {given_up}. Their requests stand still until they are retried on its own pages"
    problems = {history: counts[0] and not counts[1], jobs: given_up}
    return [EngineFinding("fail", text) for text, is_there in problems.items() if is_there]
