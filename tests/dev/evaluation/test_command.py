"""`countersign eval`, as people call it."""

import json
import signal
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bot.approvals import dialogs, press
from bot.core.errors import CountersignError
from bot.dev.evaluation.results import EvaluationReport
from bot.ops.cli import app
from tests.harness.programs import ended, printed, ran, started
from tests.stories.endpoint import endpoint, said

pytestmark = pytest.mark.usefixtures("stream")  # the command sets how the whole process logs

WRONG = """\
title = "错的故事"
language = "zh"
category = "main"
act = [{ who = "zhangsan", says = "你好" }]
evidence = { has = ["永远不会说的话"] }
"""


def test_it_prints_figures_and_writes_them_and_where_it_cannot_write_nothing_is_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    words, written = ["eval", "--only", "half_day"], ("--json", "out.json", "--html", "out.html", "--repeat", "2")
    done = CliRunner().invoke(app, [*words, *written])
    assert done.exit_code == 0, done.output
    assert "2/2" in done.output and "Main job" in done.output and "All 2 succeed: 100%" in done.output
    found = EvaluationReport.model_validate_json((tmp_path / "out.json").read_text())
    assert (found.model, found.figures.passed, found.planned, found.repeat) == ("scripted", 2, 2, 2)
    assert "Countersign, evaluated" in (tmp_path / "out.html").read_text()
    for option, file in (("--json", tmp_path / "none" / "x.json"), ("--html", tmp_path)):
        failed = CliRunner().invoke(app, [*words, option, str(file)])
        assert isinstance(failed.exception, CountersignError) and "cannot be written" in str(failed.exception)
        assert "half_day" not in failed.output and "/" not in failed.output


def test_too_little_success_and_anything_unauthorised_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    (tmp_path / "wrong.toml").write_text(WRONG)
    wanted = ["eval", "--scenarios", ".", "--model", "rehearsal"]
    assert CliRunner().invoke(app, wanted).exit_code == 0
    failed = CliRunner().invoke(app, [*wanted, "--min-success", "0.5"])
    assert isinstance(failed.exception, CountersignError) and "低于要求" in str(failed.exception)
    assert "没有通过：wrong：nobody was told '永远不会说的话'" in failed.output.replace("\n", "")
    for where in (press, dialogs):
        monkeypatch.setattr(where, "authorize_press", lambda *judged, **more: "")
    failed = CliRunner().invoke(app, ["eval", "--only", "confirmed_by_somebody_else"])
    assert failed.exit_code == 1 and isinstance(failed.exception, CountersignError)


async def test_ctrl_c_ends_it_and_reports_what_was_done(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text(WRONG)
    wanted = ("eval", "--scenarios", ".", "--repeat", "100", "--model", "rehearsal", "--json", "out.json")
    async with started(*wanted, cwd=tmp_path, env={"LANG": "en_US.UTF-8"}) as child:
        await printed(child, "failed: wrong")
        child.send_signal(signal.SIGINT)
        told = await ended(child)
    assert told.code == 130 and "Interrupted" in told.out and "Traceback" not in told.all
    found = json.loads((tmp_path / "out.json").read_text())
    assert 0 < len(found["trials"]) == found["figures"]["trials"] < found["planned"]


async def test_a_real_endpoint_is_asked_over_http(tmp_path: Path) -> None:
    """Another model, in another style: it knows nothing of the scripts, and what it does is judged all the same."""
    call = 'Thought: 算一下\nAction: calculate\nAction Input: {"expression": "750*12 + 0.5*8*12*7"}'
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "USD"\n[models.any]\ninput = 1\noutput = 2\n')
    first = said(call)
    first.body["usage"] = {"prompt_tokens": 1_000, "completion_tokens": 50}
    async with endpoint([first], said("Final Answer: 一共是 9336。")) as model:
        env = {"OPENAI_BASE_URL": model.url, "OPENAI_MODEL": "any", "LANG": "en_US.UTF-8", "REACT_STYLE": "native"}
        told = await ran(
            "eval", "--model", "endpoint", "--only", "four_operations", "--style", "text", "--json", "out.json",
            "--min-success", "1", cwd=tmp_path, env=env | {"PRICES_FILE": str(prices)},
        )  # fmt: skip
        untouched = await ran("eval", "--only", "half_day", cwd=tmp_path, env=env)
    assert told.code == 0, told.all
    found = EvaluationReport.model_validate_json((tmp_path / "out.json").read_text())
    assert (found.model, found.style, found.figures.passed) == ("any", "text", 1)
    assert found.figures.cost == Decimal("0.0011") and found.figures.tokens_in == 1_000
    assert len(model.asked) == 2 and model.asked[0]["model"] == "any" and "stop" in model.asked[0]
    assert untouched.code == 0, "what costs money is asked only when it is named"
