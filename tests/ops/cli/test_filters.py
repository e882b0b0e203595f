"""What `countersign tail` is asked for has to exist: an empty list would look like an answer."""

import ast
import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.features.shipped import JOURNAL_KINDS
from bot.queue.keys import Keys
from bot.queue.writes import apply_writes
from bot.storage.approvals import ApprovalStore
from bot.storage.journal import KINDS, Journal
from tests.approvals.approval_walk import build_card, make_plan
from tests.harness.office import LI, WANG, ZHANG, Office, office
from tests.harness.programs import Ended, ended, invoke, printed, started

BOT = Path(__file__).parents[3] / "bot"
EVIL = "\x1b[2J\x9b31m\u202e\r\n\x07"


Shell = Callable[..., Awaitable[Ended]]


@pytest.fixture
async def there(valkey: str, redis: Redis) -> AsyncIterator[Office]:
    """A workspace, and a journal with a little of some people's."""
    journal = Journal(redis, Keys())
    await journal.append_record("a", "command", person=ZHANG, channel="D01ZHANG", text="tasks")
    await journal.append_record("b", "command", person=LI, channel="C01GENERAL", text="help", run="R00aaaaaaaaaaaa")
    await journal.append_record("c", "process.deploy", person="root", text="deploys trip")
    await journal.append_record("d", "of.another.version", person=WANG, text="from the future")
    async with office(valkey) as opened:
        yield opened


@pytest.fixture
def tail(there: Office, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """`countersign tail --json …` with Slack connected; what is None is not set."""
    monkeypatch.chdir(tmp_path)

    async def ask(*arguments: str, **more: str | None) -> Ended:
        env = {"LC_ALL": None, "LC_MESSAGES": None, "LANG": None, **there.shell, **more}
        with monkeypatch.context() as patch:
            for name, value in env.items():
                patch.delenv(name, raising=False) if value is None else patch.setenv(name, value)
            return await asyncio.to_thread(invoke, capsys, patch, "tail", "--json", *arguments)

    return ask


NO_SLACK = {"SLACK_BOT_TOKEN": None, "SLACK_APP_TOKEN": None, "SLACK_API_URL": None}
CHINESE = {"LANG": "zh_CN.UTF-8"}


def people(end: Ended) -> set[str]:
    assert end.code == 0, end
    return {str(json.loads(line)["person"]) for line in end.out.splitlines()}


def assert_error(end: Ended, *words: str) -> None:
    """One line that says what is wrong; nothing that looks like an answer; nothing that drives a terminal."""
    assert end.code and not end.out and "Traceback" not in end.all, end
    assert not [sign for sign in end.err if not sign.isprintable() and sign != "\n"], end
    for word in words:
        assert word in end.err, (word, end)


async def test_a_person_is_an_id_a_mention_an_address_or_a_name_and_nobody_and_several_are_errors(tail: Shell) -> None:
    for one in (ZHANG, f"<@{ZHANG}>", "zhangsan@example.com", "ZhangSan@Example.com", "张三", "zhang san", " 张三 "):
        assert people(await tail("--person", one)) == {ZHANG}, one
    nothing_of_him = await tail("--person", "zhaoliu@example.com")
    assert nothing_of_him.code == 0 and not nothing_of_him.out, "known, and nothing on record: that is an answer"
    assert_error(await tail("--person", "王二麻子"), "I found nobody called “王二麻子”")
    assert_error(await tail("--person", "U99NOBODY"), "U99NOBODY")
    assert_error(await tail("-f", "--person", "nobody@example.com"), "nobody@example.com")
    assert_error(await tail("--person", "王二麻子", **CHINESE), "没有找到「王二麻子」")
    assert_error(await tail("--person", "zha"), "may be", "zhangsan@example.com", ZHANG)
    assert_error(await tail("--person", "zha", **CHINESE), "可能是", ZHANG)
    assert_error(await tail("--person", "x" + EVIL), "\\u001b")


async def test_where_nobody_can_be_named_ids_of_the_record_are_enough(tail: Shell) -> None:
    """A shell with `REDIS_URL` alone, or with Slack away."""
    away = {"SLACK_API_URL": "http://127.0.0.1:1/api/"}
    assert people(await tail("--person", ZHANG, **NO_SLACK)) == {ZHANG}
    assert people(await tail("--person", "root", **NO_SLACK)) == {"root"}
    assert people(await tail("--person", ZHANG, **away)) == {ZHANG}
    assert_error(await tail("--person", "张三", **NO_SLACK), "张三", "the chat platform")
    assert_error(await tail("--person", "U99NOBODY", **NO_SLACK), "U99NOBODY", "the chat platform")
    assert_error(await tail("--person", "张三", **away), "张三", "the chat platform cannot be reached")


UNKNOWN = {
    ("--kind", "aproval.refused"): ("没有", "aproval.refused", "approval.refused"),
    ("--kind", "command", "--kind", "effect"): ("没有", "effect.done", "effect.unknown"),
    ("--kind", "zzz"): ("没有", "zzz", "approval.requested", "step"),
    ("-f", "--kind", "steps"): ("没有", "step"),
    ("--kind", ""): ("没有", "step"),
    ("--run", "R00bbbbbbbbbbbb"): ("没有", "R00bbbbbbbbbbbb", "countersign tail"),
    ("-f", "--run", "nonsense"): ("没有", "nonsense"),
    ("--channel", "#general"): ("频道", "#general", "C0123ABCD"),
    ("-f", "--channel", "general"): ("频道", "general", "C0123ABCD"),
    ("--channel", "C0NOTHING"): ("频道", "C0NOTHING"),
    ("--since", "yesterday"): ("时长", "yesterday", "15m"),
    ("--since", "-1h"): ("时长", "-1h", "15m"),
}


async def test_an_unknown_kind_run_channel_or_age_is_an_error(tail: Shell, subtests: pytest.Subtests) -> None:
    for asked, (chinese, *both) in UNKNOWN.items():
        with subtests.test(" ".join(asked)):
            assert_error(await tail(*asked, **NO_SLACK), *both)
            assert_error(await tail(*asked, **NO_SLACK, **CHINESE), chinese, *both)


async def test_what_another_version_has_written_can_be_asked_for_and_a_channels_first_word_waited_for(
    tail: Shell, there: Office, redis: Redis, tmp_path: Path
) -> None:
    assert people(await tail("--kind", "of.another.version")) == {WANG}
    assert people(await tail("--run", "R00aaaaaaaaaaaa")) == {LI}
    assert people(await tail("--channel", "C01GENERAL")) == {LI}
    env = {"REDIS_URL": there.redis_url}
    async with started("tail", "-f", "--channel", "C0NEW", cwd=tmp_path, env=env) as child:
        assert "C0NEW" in (await asyncio.wait_for(child.stderr.readline(), 20)).decode()
        await Journal(redis, Keys()).append_record("e", "command", person=LI, channel="C0NEW", text="first word")
        await printed(child, "first word")
        child.terminate()
        await ended(child)


# The list of kinds


PLACES = {
    **dict.fromkeys(("build_record_write", "append_record", "_build_journal_write"), 1),
    "build_journal_write": 2,
    "enqueue_message": 5,
}
"""Function → place of the kind among its arguments."""


def written() -> Iterator[str]:
    """Every kind that the code passes to the journal, itself or through a helper that names the parameter `kind`."""
    for file in BOT.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for function in [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]:
            values = {
                target.id: node.value
                for node in ast.walk(function)
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            for call in [one for one in ast.walk(function) if isinstance(one, ast.Call)]:
                name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                at = PLACES.get(name, len(call.args))
                for kind in call.args[at : at + 1]:
                    yield from texts(values.get(getattr(kind, "id", ""), kind))


def texts(node: ast.AST) -> Iterator[str]:
    """The texts that an expression may be; of one with a gap, what stands before it."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=other):
            yield from (*texts(body), *texts(other))
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            yield f"{text}*"


def test_the_list_of_kinds_is_what_the_code_writes() -> None:
    found = set(written())
    topics = {one.removesuffix("*") for one in found if one.endswith("*")}
    assert topics == {"approval.", "effect.", "message."}, "the control: what is put together is seen too"
    plain = {one for one in found if not one.endswith("*")}
    known = KINDS | JOURNAL_KINDS
    assert plain <= known, "written, and `tail --kind` would not know it"
    assert {one for one in known - plain if not one.startswith(tuple(topics))} == set(), "known, and never written"


# The terminal


async def test_nothing_that_is_kept_drives_the_terminal(
    redis: Redis, valkey: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the fields that the bot itself fills in: a record may come from anywhere."""
    keys = Keys()
    more = {"why": EVIL, "x" + EVIL: "y"}
    await Journal(redis, keys).append_record(
        "a", "k" + EVIL, person="p" + EVIL, run="r" + EVIL, channel="c", text=EVIL, **more
    )
    plan = make_plan(deciders=(ZHANG + EVIL,), subject="[red]x" + EVIL)
    about = {"id": "A00aaaaaaaaaaaa", "tool": "send_email" + EVIL, "caller": LI + EVIL, "place": None}
    card = build_card(plan, **about, created_ms=1, expires_ms=2**41)
    opened = ApprovalStore(redis, keys).build_open_writes(card, card.expires_ms - 1)
    await apply_writes(redis, keys, keys.get_partition(card.id), opened)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", valkey)
    monkeypatch.setenv("COLUMNS", "300")
    commands = ("tail", "tail --json", "pending", "pending --json")
    for asked in (*map(str.split, commands), ("show", EVIL), ("dead", "retry", EVIL)):
        end = await asyncio.to_thread(invoke, capsys, monkeypatch, *asked)
        assert "\\u001b" in end.all, asked
        assert not [sign for sign in end.all if not sign.isprintable() and sign != "\n"], (asked, end)
