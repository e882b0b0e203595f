"""Says whether an engine can be used as it is, and how to mend what is wrong; in English, for administrators."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

from tools.spec import ToolError
from tools.workflow.process.definition import Process, load_shipped_processes
from tools.workflow.remote.api import EngineApi
from tools.workflow.remote.extension_names import EngineName
from tools.workflow.remote.open_engine import EngineAddress, open_api
from tools.workflow.remote.process_versions import require_same_meaning
from tools.workflow.remote.rest_client import RestClient, reject_unreadable

CAMUNDA_URL = "https://host/engine-rest"
URLS: dict[EngineName, str] = {
    "operaton": CAMUNDA_URL,
    "camunda": CAMUNDA_URL,
    "flowable": "https://host/flowable-rest/service or …/process-api",
}
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


class EngineFinding(NamedTuple):
    level: Literal["ok", "warn", "fail"]
    text: str


async def check_engine(address: EngineAddress, processes: Sequence[Process]) -> list[EngineFinding]:
    """Check the engine and these processes in it. Nothing is changed there."""
    findings: list[EngineFinding] = []
    async with open_api(address) as (rest, api):
        try:
            deployed = [(process, await api.find_definition_id(process.definition.key)) for process in processes]
            found = f"{api.name} {await _read_version(rest, address.kind)} answers and takes the login"
            findings.append(EngineFinding("ok", found))
            for process, definition in deployed:
                findings.append(await _check_definition(rest, api, process, definition))
            if not await _keeps_history(rest, address.kind):
                cure = "set its history level to audit or full"
                findings.append(EngineFinding("fail", f"it keeps no variables of ended requests: {cure}"))
            findings += await _check_jobs(rest, address.kind, processes)
        except ToolError as wrong:
            cure = ADVICE.get(wrong.code, wrong.text).format(url=URLS[address.kind])
            findings.append(EngineFinding("fail", f"{api.name}: {cure}"))
    return findings


@reject_unreadable
async def _read_version(rest: RestClient, kind: EngineName) -> str:
    path = ("management", "engine") if kind == "flowable" else ("version",)
    return str((await rest.read_json(*path))["version"])


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
async def _keeps_history(rest: RestClient, kind: EngineName) -> bool:
    """Whether the variables that running instances have are in the history, too. True while nothing runs: no engine
    tells its history level."""
    if kind == "flowable":
        now = await rest.read_json("runtime", "variable-instances", query={"size": 1})
        kept = await rest.read_json("history", "historic-variable-instances", query={"size": 1})
        return bool(kept["total"] or not now["total"])
    now = await rest.read_json("variable-instance", "count")
    kept = await rest.read_json("history", "variable-instance", "count")
    return bool(kept["count"] or not now["count"])


@reject_unreadable
async def _check_jobs(rest: RestClient, kind: EngineName, processes: Sequence[Process]) -> list[EngineFinding]:
    """Find jobs of our processes that the engine has given up, and on Flowable those that are locked. A killed Flowable
    leaves its locks for an hour, and its requests wait that long."""
    keys = [process.definition.key for process in processes]
    if kind != "flowable":
        query: dict[str, str | int] = {"noRetriesLeft": "true", "maxResults": ROWS}
        given_up = [
            job for key in keys for job in await rest.read_json("job", query=query | {"processDefinitionKey": key})
        ]
        return _report_given_up_jobs(len(given_up))
    ours = tuple(f"{key}:" for key in keys)

    async def list_jobs(kind: str) -> list[dict[str, Any]]:
        rows = (await rest.read_json("management", kind, query={"size": ROWS}))["data"]
        return [row for row in rows if str(row["processDefinitionId"]).startswith(ours)]

    findings, old = _report_given_up_jobs(len(await list_jobs("deadletter-jobs"))), datetime.now(UTC) - LONG_LOCK
    for job in await list_jobs("jobs"):
        if job.get("lockOwner") and datetime.fromisoformat(job["createTime"]) < old:
            until = datetime.fromisoformat(job["lockExpirationTime"]).astimezone(UTC)
            cure = f'if that engine was killed, run it now: POST management/jobs/{job["id"]} {{"action": "execute"}}'
            findings.append(
                EngineFinding("warn", f"a job of {job['processInstanceId']} is locked until {until:%H:%M} UTC; {cure}")
            )
    return findings


def _report_given_up_jobs(count: int) -> list[EngineFinding]:
    text = f"jobs that it has given up: {count}. Their requests stand still until they are retried on its own pages"
    return [EngineFinding("fail", text)] if count else []
