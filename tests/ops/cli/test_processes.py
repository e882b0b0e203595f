"""`countersign processes` as a program of its own."""

import asyncio
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from redis.asyncio import Redis
from yarl import URL

from bot.core.i18n import load_sentences
from bot.ops.cli.form_reference import format_form_reference
from tests.harness.engines import StartEngine
from tests.harness.processes import FILES, TRIP
from tests.harness.programs import Ended, ran
from tests.tools.company import LONG, NOW, SICK
from tests.tools.office import Office, decide, office
from tests.tools.workflow.history import LEAVE, YES, on, other
from tests.tools.workflow.remote.company import list_named_engines, world_of
from tests.tools.workflow.remote.proxy import LOGIN, PASSWORD
from tools.workflow.engine.store import RedisStore
from tools.workflow.process.definition import Process
from tools.workflow.process.forms import FieldKind
from tools.workflow.process.policy import KINDS, SELECTORS, PeopleSelector


@pytest.fixture
async def there(redis: Redis) -> Office:
    """A bot's engine, at work all the time."""
    return office(RedisStore(redis))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where an administrator has put the files of the business trip."""
    for name in ("trip.bpmn", "trip.toml"):
        shutil.copy(FILES / name, tmp_path)
    return tmp_path


def written(folder: Path, process: Process) -> None:
    (folder / f"{process.key}.bpmn").write_bytes(process.bpmn)
    (folder / f"{process.key}.toml").write_bytes(process.toml)


async def command(valkey: str, folder: Path, *arguments: str, **env: str) -> Ended:
    return await ran(*arguments, cwd=folder, env={"REDIS_URL": valkey, "COLUMNS": "160", **env})


async def processes(valkey: str, folder: Path, *arguments: str, **env: str) -> Ended:
    return await command(valkey, folder, "processes", *arguments, **env)


# Checking


async def in_both(valkey: str, folder: Path, *arguments: str) -> tuple[Ended, Ended]:
    """The same in English and in Chinese."""
    return await asyncio.gather(
        processes(valkey, folder, *arguments), processes(valkey, folder, *arguments, LANG="zh_CN.UTF-8")
    )


async def test_files_that_can_be_used_are_summed_up_without_any_redis(folder: Path) -> None:
    en, zh = await in_both("redis://127.0.0.1:1", folder, "check", "trip.bpmn")
    assert en.code == zh.code == 0, (en, zh)
    assert "line 4, trip: historyTimeToLive has no effect here" in en.out and "historyTimeToLive 不起作用" in zh.out
    assert "OK: trip.bpmn and trip.toml" in en.out and "Business trip" in en.out and "finance_check (finance)" in en.out
    assert "可以使用" in zh.out and "出差" in zh.out


async def test_files_that_cannot_be_used_are_named_with_the_element_and_the_reason(folder: Path) -> None:
    text = (folder / "trip.bpmn").read_text(encoding="utf-8")
    form = (folder / "trip.toml").read_text(encoding="utf-8")
    pairs = {
        "script": (text.replace("userTask", "scriptTask"), form, "manager", "scriptTask"),
        "stranger": (text.replace("${finance}", "${boss}"), form, "finance_check", "boss"),
        "python": (text.replace("decision == 'approve'", "__import__('os')"), form, "manager_yes", "condition"),
        "broken": (text[:-30], form, "file", "XML"),
        "empty": ("", form, "file", "XML"),
        "odd_form": (text, form + "\n[[", "form", ""),
        "no_form": (text, None, "no_form.toml", "No such file"),
        "huge": ("x" * 300_000, form, "huge.bpmn", "256 KiB"),
    }
    asked = {f"{name}.bpmn": (element, reason) for name, (_, _, element, reason) in pairs.items()}
    for name, (bpmn, toml, _, _) in pairs.items():
        (folder / f"{name}.bpmn").write_text(bpmn, encoding="utf-8")
        if toml is not None:
            (folder / f"{name}.toml").write_text(toml, encoding="utf-8")
    asked |= {"nowhere.bpmn": ("nowhere.bpmn", ""), "trip.toml": (".bpmn", ""), ".": (".bpmn", "")}
    ends = await asyncio.gather(*(processes("", folder, "check", file) for file in asked))
    for (file, (element, reason)), end in zip(asked.items(), ends, strict=True):
        assert end.code == 1 and element in end.err and reason in end.err and "Traceback" not in end.err, (file, end)
        assert len(end.err.strip().splitlines()) == (5 if file == "script.bpmn" else 1), (file, end)
    assert "script.bpmn: line 9, manager: <scriptTask>" in ends[0].err and "problems: 4" in ends[0].err, ends[0]


async def test_a_step_that_nobody_can_decide_is_named_before_anybody_meets_it(valkey: str, folder: Path) -> None:
    bpmn = (folder / "trip.bpmn").read_text(encoding="utf-8")
    form = (folder / "trip.toml").read_text(encoding="utf-8")
    group = bpmn.replace('camunda:assignee="${approver}"', 'camunda:candidateGroups="board"')
    (folder / "trip.bpmn").write_text(group, encoding="utf-8")
    no_row = form.replace('[[policy]]\nlevel = "finance"\nwho = ["role finance"]\n', "")
    (folder / "trip.toml").write_text(no_row, encoding="utf-8")
    (folder / "people.toml").write_text('[[person]]\nemail = "li@example.com"\nroles = ["hr"]\n', encoding="utf-8")
    finance = '[[policy]]\nprocess = "trip"\nlevel = "finance"\nwho = ["person li@example.com"]\n'
    (folder / "policy.toml").write_text(finance, encoding="utf-8")
    known = {"DIRECTORY_FILE": str(folder / "people.toml")}
    en, zh, deployed, ruled, unknown = await asyncio.gather(
        processes("", folder, "check", "trip.bpmn", **known),
        processes("", folder, "check", "trip.bpmn", LANG="zh_CN.UTF-8", **known),
        processes(valkey, folder, "deploy", "trip.bpmn", **known),
        processes("", folder, "check", "trip.bpmn", POLICY_FILE=str(folder / "policy.toml"), **known),
        processes("", folder, "check", "trip.bpmn"),
    )
    nobody = "line 9, manager: nobody has the role board"
    assert en.code == 0 and nobody in en.out and "line 31, finance_check: no [[policy]] row" in en.out, en
    assert "DIRECTORY_FILE" in en.out and "POLICY_FILE" in en.out and "administration_check: n" not in en.out
    assert "没有人有角色 board" in zh.out and "没有 [[policy]] 规则" in zh.out, zh
    assert deployed.code == 1 and nobody in deployed.out and "finance_check: no [[policy]] row" in deployed.out, (
        deployed
    )
    assert nobody in ruled.out and "no [[policy]] row" not in ruled.out, "the control: a row of POLICY_FILE counts"
    assert nobody not in unknown.out and "no [[policy]] row" in unknown.out, "no file says who has which role"


async def test_a_shipped_process_is_written_as_files_that_can_be_used_and_never_over_others(folder: Path) -> None:
    there = ("--flowable", "--into", "flowable")
    plain, flowable = await asyncio.gather(
        processes("", folder, "export", "leave"),
        processes("", folder, "export", "leave", *there),
    )
    assert plain.code == flowable.code == 0 and plain.out.split() == ["leave.bpmn", "leave.toml"], (plain, flowable)
    assert (folder / "leave.bpmn").read_bytes() == LEAVE.bpmn
    written_for_flowable = (folder / "flowable" / "leave.bpmn").read_bytes()
    assert b':type="external-worker"' in written_for_flowable and b':type="external"' not in written_for_flowable
    assert list_named_engines(written_for_flowable) == {"flowable"}
    checked, again, unknown = await asyncio.gather(
        processes("", folder, "check", "flowable/leave.bpmn"),
        processes("", folder, "export", "leave"),
        processes("", folder, "export", "party"),
    )
    assert checked.code == 0, checked
    assert again.code == 1 and "leave.bpmn was not written (File exists)" in again.err, again
    assert unknown.code == 1 and "party" in unknown.err and "leave, expense" in unknown.err, unknown


async def test_what_another_engine_keeps_is_not_looked_for_here(folder: Path, valkey: str) -> None:
    remote = {"WORKFLOW_ENGINE": "flowable", "ENGINE_URL": "http://127.0.0.1:1", "ENGINE_USER": "rest-admin"}
    asked = (("processes", "list"), ("processes", "migrate", "leave", "--yes"), ("audit",), ("audit", "verify"))
    for end in await asyncio.gather(*(command(valkey, folder, *words, **remote) for words in asked)):
        assert end.code == 1 and "flowable keeps the requests (WORKFLOW_ENGINE)" in end.err and not end.out, end


async def test_what_another_engine_lacks_is_said_and_every_file_is_written_for_it(folder: Path) -> None:
    ends = await asyncio.gather(
        processes("", folder, "check", "trip.bpmn", "--engine", "flowable"),
        processes("", folder, "export", "expense"),
        processes("", folder, "export", "trip.bpmn", "--engine", "operaton", "--into", "there"),
    )
    assert [end.code for end in ends] == [0, 0, 0], ends
    assert "It can run in flowable" in ends[0].out and "timers only remind" in ends[0].out
    assert list_named_engines((folder / "there" / "trip.bpmn").read_bytes()) == {"operaton"}
    en, zh = await in_both("", folder, "check", "expense.bpmn", "--engine", "camunda")
    assert en.code == zh.code == 0 and "It can run in camunda" in en.out and "可以在 camunda 上运行" in zh.out, (en, zh)


async def test_a_process_is_deployed_to_another_engine_and_to_the_bots_at_once(
    folder: Path, valkey: str, start_engine: StartEngine
) -> None:
    """And an administrator reads why it refuses a file; nothing that somebody could come in with, even where the
    engine repeats it."""
    url = start_engine("operaton")
    there = {"WORKFLOW_ENGINE": "operaton", "ENGINE_URL": url, "ENGINE_USER": LOGIN, "ENGINE_PASSWORD": PASSWORD}
    bpmn = (folder / "trip.bpmn").read_text(encoding="utf-8")
    odd = f'historyTimeToLive="soon {url} {LOGIN} {PASSWORD} \N{RIGHT-TO-LEFT OVERRIDE}"'
    async with world_of("operaton", url) as world:
        await world.empty()
        (folder / "trip.bpmn").write_text(re.sub(r'historyTimeToLive="[^"]*"', odd, bpmn), encoding="utf-8")
        end = await processes(valkey, folder, "deploy", "trip.bpmn", "--yes", **there)
        assert end.code == 1 and not await world.api.find_definition_id("trip"), end
        told = "operaton says: ENGINE-09005 Could not parse BPMN process. Errors: * Cannot parse historyTimeToLive"
        assert told in end.err, end
        assert PASSWORD not in end.all and LOGIN not in end.all and URL(url).authority not in end.all, end
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in end.all and "not deployed" in end.err and len(end.err) < 2_000
        assert (await processes(valkey, folder, "list", "--json")).out.count('"trip"') == 0, "nor is it used here"
        (folder / "trip.bpmn").write_text(bpmn, encoding="utf-8")
        asked = await processes(valkey, folder, "deploy", "trip.bpmn", **there)
        assert asked.code == 1 and "--yes" in asked.err and not await world.api.find_definition_id("trip"), asked
        end = await processes(valkey, folder, "deploy", "trip.bpmn", "--yes", **there)
        assert end.code == 0 and "trip is deployed" in end.out, end
        first = await world.api.find_definition_id("trip")
        assert list_named_engines(await world.api.load_definition_xml(first)) == {"operaton"}
        again = await processes(valkey, folder, "deploy", "trip.bpmn", "--yes", **there)
        assert again.code == 0 and "already in use" in again.out, again
        assert await world.api.find_definition_id("trip") == first, "the engine has no version twice"
        unknown = await processes(valkey, folder, "deploy", "party", "--yes", **there)
        assert unknown.code == 1 and "leave, expense" in unknown.err, unknown
        shipped = await processes(valkey, folder, "deploy", "leave", "--yes", **there)
        assert shipped.code == 0 and await world.api.find_definition_id("leave"), shipped


async def test_an_administrator_gives_a_task_to_somebody_else(there: Office, valkey: str, folder: Path) -> None:
    assert await there.start(SICK) == "L-0001"
    unsure = await processes(valkey, folder, "assign", "L-0001-1", "U3")
    assert unsure.code == 1 and "--yes" in unsure.err, unsure
    own = await processes(valkey, folder, "assign", "L-0001-1", "U1", "--yes", LANG="zh_CN.UTF-8")
    assert own.code == 1 and "自己" in own.err, own
    done = await processes(valkey, folder, "assign", "l-0001-1", "U3", "--reason", "has left", "--yes")
    assert done.code == 0 and "I gave task L-0001-1 to U3" in done.out, done
    assert (await there.engine.get_request("L-0001")).waits_for == ("U3",)
    again, verified, tail = await asyncio.gather(
        processes(valkey, folder, "assign", "L-0001-1", "U3", "--yes"),
        command(valkey, folder, "audit", "verify"),
        command(valkey, folder, "tail", "--kind", "process.assign"),
    )
    assert again.code == 1 and verified.code == 0 and "gives L-0001-1 to U3" in tail.out, (again, verified, tail)


async def test_an_address_that_cannot_be_looked_up_is_no_id(there: Office, valkey: str, folder: Path) -> None:
    """The task was given to the text itself, which nobody is."""
    assert await there.start(SICK) == "L-0001"
    for person in ("li@example.com", "Li Si", "lisi", "李四", ""):
        refused = await processes(valkey, folder, "assign", "L-0001-1", person, "--yes")
        assert refused.code == 1 and "give an id" in refused.err, refused
    assert (await there.engine.get_request("L-0001")).waits_for == ("U2",)


async def test_the_reference_has_everything_that_a_form_can_say_in_both_languages(folder: Path) -> None:
    en, zh = await in_both("", folder, "reference")
    assert en.code == zh.code == 0, (en, zh)
    lines = set(en.out.splitlines())
    assert {"[[field]]", "[[policy]]", "[days]", "choices = [{ … }]"} <= lines
    assert "  max_length: most characters of a text (whole number; 500 if left out)" in lines
    assert "  max_length：text 最多的字符数（整数，不写则为 500）" in zh.out.splitlines()
    assert all(f"\n  {kind}: " in en.out for kind in FieldKind)
    for key, words in load_sentences().items():
        if key.startswith("reference.") and key not in ("reference.list", "reference.default"):
            assert words["en"].replace("{{", "{").replace("}}", "}") in en.out, f"{key} is no key of the schema"
    guide = (Path(__file__).parents[3] / "tools" / "README.md").read_text(encoding="utf-8")
    assert f"\n```\n{format_form_reference('en')}\n```\n" in guide, "print it again: countersign processes reference"


def test_every_selector_of_the_reference_is_read_as_it_is_written() -> None:
    read = [
        PeopleSelector.model_validate(written.replace("NAME", "hr").replace("E-MAIL", "a@example.com"))
        for written in SELECTORS.values()
    ]
    assert {one.kind for one in read} == set(KINDS) and [one.of is not None for one in read].count(True) == 1


# Deploying


async def test_a_deployed_process_is_there_for_every_bot_at_once(there: Office, valkey: str, folder: Path) -> None:
    end = await processes(valkey, folder, "deploy", "trip.bpmn", "--yes")
    assert end.code == 0 and "trip is deployed" in end.out, end
    assert await there.start(TRIP, process="trip") == "T-0001"
    again, listed, tail = await asyncio.gather(
        processes(valkey, folder, "deploy", "trip.bpmn"),
        processes(valkey, folder, "list", "--json"),
        command(valkey, folder, "tail", "--json"),
    )
    assert again.code == 0 and "already in use" in again.out
    rows = {row["key"]: row for row in map(json.loads, listed.out.splitlines())}
    assert (rows["trip"]["deployed"], rows["trip"]["shipped"], rows["trip"]["running"]) == (True, False, 1)
    assert rows["leave"]["shipped"] and rows["leave"]["current"]
    (noted,) = [one for one in map(json.loads, tail.out.splitlines()) if one["kind"] == "process.deploy"]
    assert noted["process"] == "trip" and noted["person"] and rows["trip"]["bpmn"].startswith(noted["bpmn"])


async def test_what_changes_is_shown_nobody_to_ask_is_a_no_and_the_list_tells_versions(
    there: Office, valkey: str, folder: Path
) -> None:
    written(folder, other(LEAVE))
    for end in await in_both(valkey, folder, "deploy", "leave.bpmn"):
        assert end.code == 1 and "--yes" in end.err
        assert "long_leave.routes[long].condition: ${days > 3} → ${days > 30}" in end.out
    assert (await there.engine.list_processes())[0].version == LEAVE.version
    await there.engine.start_request("leave", LONG, "U1", "a", NOW)
    await there.engine.deploy_process(other(LEAVE))
    en, zh = await in_both(valkey, folder, "list")
    assert en.code == zh.code == 0, (en, zh)
    current, earlier = [line.split() for line in en.out.splitlines() if line.lstrip().startswith("leave")]
    assert current[:2] == ["leave", "*"] and current[-2:] == ["deployed", "0"]
    assert earlier[-2:] == ["shipped", "1"] and earlier[2] == LEAVE.definition.version[:12]
    assert "已部署" in zh.out and "自带" in zh.out


async def test_at_a_terminal_a_person_is_asked_and_a_number_of_another_process_is_refused(
    there: Office, valkey: str, folder: Path
) -> None:
    assert await answered("n\n", valkey, folder) == 1
    assert len(await there.engine.list_processes()) == 2
    form = (folder / "trip.toml").read_text(encoding="utf-8")
    (folder / "trip.toml").write_text(form.replace('number = "T"', 'number = "L"'), encoding="utf-8")
    end = await processes(valkey, folder, "deploy", "trip.bpmn", "--yes")
    assert end.code == 1 and "leave" in end.err and len(await there.engine.list_processes()) == 2
    (folder / "trip.toml").write_text(form, encoding="utf-8")
    assert await answered("y\n", valkey, folder) == 0
    assert len(await there.engine.list_processes()) == 3


async def answered(answer: str, valkey: str, folder: Path) -> int | None:
    """Exit code of a deployment by somebody who types this on a terminal."""
    mine, theirs = os.openpty()
    with os.fdopen(mine, "wb", buffering=0) as typed, os.fdopen(theirs) as given:
        typed.write(answer.encode())
        words = ("processes", "deploy", "trip.bpmn")
        return (await ran(*words, cwd=folder, env={"REDIS_URL": valkey}, given=given.fileno())).code


# Migrating


async def test_each_request_moves_or_stays_with_the_reason_and_one_moves_alone(
    there: Office, valkey: str, folder: Path
) -> None:
    for key, form in (("a", LONG), ("b", on(LONG, "07", "11")), ("c", on(SICK, "01", "02"))):
        await there.engine.start_request("leave", form, "U1", key, NOW)
    await decide(there.engine, "L-0002-1", "U2", YES)
    await there.engine.deploy_process(other(LEAVE))
    alone = await processes(valkey, folder, "migrate", "leave", "--request", "l-0003", "--yes")
    assert alone.code == 0 and alone.out.strip() == "L-0003: moved", alone
    again = await processes(valkey, folder, "migrate", "leave", "--request", "L-0003")
    assert again.code == 0 and "use the current version" in again.out
    dry = await processes(valkey, folder, "migrate", "leave", "--dry-run")
    assert dry.code == 1 and "L-0001: would move" in dry.out and "L-0002: stays" in dry.out, dry
    assert (await there.engine.get_request("L-0001")).definition == LEAVE.definition.version
    unsure = await processes(valkey, folder, "migrate", "leave")
    assert unsure.code == 1 and "--yes" in unsure.err
    done = await processes(valkey, folder, "migrate", "leave", "--yes", LANG="zh_CN.UTF-8")
    assert done.code == 1 and "L-0001：已换到当前版本" in done.out and "long_leave" in done.out, done
    event = (await there.engine.list_events("L-0001"))[-1]
    assert event.via == "command" and event.by.startswith("system:admin:")
    verified, tail = await asyncio.gather(
        command(valkey, folder, "audit", "verify"), command(valkey, folder, "tail", "--kind", "process.migrate")
    )
    assert verified.code == 0, verified
    assert [f"migrates L-000{n}" in tail.out for n in (1, 3)] == [True, True] and "L-0002 stays" in tail.out
    assert len(tail.out.splitlines()) == 3


async def test_odd_commands_are_one_clear_answer(there: Office, valkey: str, folder: Path) -> None:
    await there.engine.start_request("leave", SICK, "U1", "a", NOW)
    await decide(there.engine, "L-0001-1", "U2", YES)
    asked = {
        ("migrate", "coup"): "leave",
        ("migrate", "leave", "--request", "L-0099"): "L-0099",
        ("migrate", "expense", "--request", "L-0001"): "L-0001",
        ("migrate", "leave", "--request", "L-0001"): "ended",
        ("deploy", "nowhere.bpmn", "--yes"): "nowhere.bpmn",
        ("migrate",): "KEY",
    }
    ends = await asyncio.gather(*(processes(valkey, folder, *one) for one in asked))
    for (question, answer), end in zip(asked.items(), ends, strict=True):
        assert end.code and answer in end.err and "Traceback" not in end.all, (question, end)
