"""`countersign usage`, and what `show` tells of costs: as programs of their own, beside an office that has worked."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.core.clock import Clock
from bot.core.run_state import Usage
from bot.queue.keys import Keys
from bot.storage.spending import SYSTEM, UsageStore
from tests.harness.budget import took
from tests.harness.office import LI, ZHANG, Office, office
from tests.harness.programs import Ended, ran
from tests.harness.scripted_model import ScriptedModel
from tests.stories.script import DONE, calls

TABLE = 'currency = "USD"\n[models.a]\ninput = 0.25\ncached = 0.025\noutput = 2\n'
LOOK = calls(("list_people", {"name": "李"}))


@pytest.fixture
async def busy(valkey: str, tmp_path: Path) -> AsyncIterator[Office]:
    """Zhang San has asked twice, a second model answered once; Li Si was answered by one that has no price."""
    prices = tmp_path / "prices.toml"
    prices.write_text(TABLE, encoding="utf-8")
    script = [took(LOOK, 1000, 400, 20), took(DONE, 2000, 0, 30), took(DONE, 7, 0, 3, "b"), took(DONE, 5, 0, 1, "b")]
    async with office(valkey) as opened, opened.opened(model=ScriptedModel([*script]), prices_file=prices):
        for person, text in ((ZHANG, "谁"), (ZHANG, "还有谁？"), (LI, "你好")):
            await opened.answer(person, text)
        await opened.quiet()
        yield opened


async def command(busy: Office, folder: Path, *arguments: str, **env: str) -> Ended:
    end = await ran(*arguments, cwd=folder, env={**busy.shell, **env})
    assert end.code == 0, end
    return end


def lines(end: Ended) -> list[dict[str, object]]:
    return [json.loads(line) for line in end.out.splitlines()]


async def test_usage_is_told_by_person_with_names_by_model_and_by_day_with_exact_costs(
    busy: Office, tmp_path: Path
) -> None:
    first, second = lines(await command(busy, tmp_path, "usage", "--json"))
    assert first == {
        "person": ZHANG, "name": "Zhang San", "runs": 2, "replies": 3, "tokens_in": 3007, "cached": 400,
        "tokens_out": 53, "unpriced": 10, "good": 0, "bad": 0, "cost": {"USD": "0.00076"},
    }  # fmt: skip
    assert (second["person"], second["runs"], second["unpriced"], second["cost"]) == (LI, 1, 6, {})
    by_model = lines(await command(busy, tmp_path, "usage", "--by", "model", "--json"))
    assert [(one["model"], one["runs"], one["replies"]) for one in by_model] == [("a", 1, 2), ("b", 2, 2)]
    [day] = lines(await command(busy, tmp_path, "usage", "--by", "day", "--since", "400d", "--json"))
    assert (day["runs"], day["replies"], day["tokens_in"]) == (3, 4, 3012)
    wide = {"COLUMNS": "160"}
    zh = (await command(busy, tmp_path, "usage", LANG="zh_CN.UTF-8", **wide)).out
    en = (await command(busy, tmp_path, "usage", LANG="en_US.UTF-8", **wide)).out
    for words in ("张三", "没有价格", "合计", "0.00076 USD，另有 10 token 没有价格", "3,007"):
        assert words in zh, zh
    for words in ("Zhang San", "no price", "Total", "0.00076 USD, plus 16 tokens without a price"):
        assert words in en, en
    runs = [one.run for one in await busy.journal(kinds=("run.finished",))]
    shown, other = [(await command(busy, tmp_path, "show", run, LANG="en_US.UTF-8")).out for run in runs[:2]]
    assert "0.00076 USD (a)" in shown and "cost=0.00076" in shown and "model=a" in shown
    assert "no price (b)" in other and "cost=" not in other and "unpriced=10" in other


async def test_what_people_think_of_answers_is_counted_and_exported(busy: Office, tmp_path: Path) -> None:
    here = busy.dm(ZHANG)
    rated = [m for m in busy.posts(here) if "cs:feedback" in json.dumps(m)]
    for answer, rating in zip(rated, ("positive", "negative"), strict=True):
        buttons = next(b for b in answer["blocks"] if b["type"] == "context_actions")["elements"][0]
        value = buttons[f"{rating}_button"]["value"]
        await busy.driver.click_button(ZHANG, here, answer["ts"], "cs:feedback", value=value)
        await busy.until(lambda rating=rating: "记下了" in busy.whispers(ZHANG))  # type: ignore[misc]
        await busy.quiet()
    mine, theirs = lines(await command(busy, tmp_path, "usage", "--json"))
    assert (mine["good"], mine["bad"], theirs["good"], theirs["bad"]) == (1, 1, 0, 0)
    by_model = lines(await command(busy, tmp_path, "usage", "--by", "model", "--json"))
    assert [(one["model"], one["good"], one["bad"]) for one in by_model] == [("a", 1, 0), ("b", 0, 1)]
    every = lines(await command(busy, tmp_path, "export"))
    assert [one["feedback"] for one in every] == [[{"by": ZHANG, "rating": one}] for one in ("good", "bad")] + [[]]
    [bad] = lines(await command(busy, tmp_path, "export", "--rated", "bad", "--content"))
    assert bad["run"] == every[1]["run"] and "还有谁" in json.dumps(bad["content"], ensure_ascii=False)
    assert len(lines(await command(busy, tmp_path, "export", "--rated", "any"))) == 2


async def test_nothing_used_is_said_and_what_nobody_asked_for_is_the_systems(
    redis: Redis, valkey: str, tmp_path: Path
) -> None:
    none = await ran("usage", cwd=tmp_path, env={"REDIS_URL": valkey, "LANG": "en_US.UTF-8"})
    assert none.code == 0 and "was not used" in none.out
    await UsageStore(redis, Keys(), clock=Clock()).record_usage(SYSTEM, [Usage("a", 5, 0, 1, None)])
    end = await ran("usage", cwd=tmp_path, env={"REDIS_URL": valkey, "LANG": "en_US.UTF-8", "COLUMNS": "160"})
    assert "The system (on its own)" in end.out, end
