"""What a model was sent and said is written down, and said again."""

import io
import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bot.agent import prompt
from bot.agent.model import ModelReply, RawToolCall, attach_details, dump_provider_details
from bot.agent.models.probe import WORD
from bot.core.errors import CountersignError, ModelFailureCause, ModelUnavailableError
from bot.core.redaction import forget_secrets, remember_secrets
from bot.dev.evaluation import recording
from bot.dev.evaluation.recording import ExchangeRecorder, ReplayModel, read_recording
from bot.dev.evaluation.results import EvaluationReport, Trial
from bot.dev.evaluation.scenario import Style
from bot.dev.evaluation.scripted_models import ModelExchange, RecordingModel, ScriptExhaustedError
from bot.ops.cli import app
from tests.dev.evaluation.playing import failures, named, played

SOME = ("moved_before_it_was_confirmed_en", "leave_in_two_parts_zh", "agreed_with_a_kind_word_zh", "four_operations_zh")


RECORDED: dict[Style, str] = {}
"""What was recorded in each style, once."""


async def record(style: Style = "native") -> str:
    """`SOME` with their scripts; what was written down."""
    if style not in RECORDED:
        written = io.StringIO()
        assert failures(await played(named(*SOME), style=style, recorder=ExchangeRecorder(written))) == []
        RECORDED[style] = written.getvalue()
    return RECORDED[style]


async def record_one(name: str) -> list[str]:
    """The lines of one scenario."""
    return [line for line in (await record()).splitlines(keepends=True) if json.loads(line)["scenario"] == name]


async def replay(folder: Path, text: str) -> list[Trial]:
    (file := folder / "said.jsonl").write_text(text, encoding="utf-8")
    return await played(named(*SOME), "recorded", recording=read_recording(file, "en"))


@pytest.mark.parametrize(
    "style", ["native", pytest.param("text", marks=pytest.mark.slow), pytest.param("json", marks=pytest.mark.slow)]
)
async def test_what_was_said_is_said_again_and_comes_out_the_same(style: Style, tmp_path: Path) -> None:
    trials = await replay(tmp_path, await record(style))
    assert failures(trials) == [] and len(trials) == (len(SOME) if style == "native" else len(SOME) - 1)
    for one in trials:
        assert one.replay is not None and (one.replay.left, one.replay.wanting) == (0, 0)
        assert one.replay.then.calls == one.replay.now.calls
        assert one.replay.now.tokens_in == pytest.approx(one.replay.then.tokens_in, rel=0.02)
    if style == "native":
        written = [json.loads(line) for line in await record_one(SOME[0])]
        assert [one["step"] for one in written] == [1, 2, 3], "whole requests, in order"
        assert all(one["style"] == "native" and one["messages"][0] for one in written)
        assert prompt.RULES.splitlines()[0] in json.dumps(written[0]["messages"]) and written[0]["body"]["tools"]
        assert written[0]["reply"]["calls"][0]["name"] == "start_process"


async def test_replies_that_run_out_or_are_left_over_are_told_and_another_prompt_is_judged_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = await record_one(SOME[1])
    other = "".join(lines).replace("2026-11-30", "2026-12-01")
    assert [one.passed for one in await replay(tmp_path, other)] == [False], "control: another reply"
    [short] = await replay(tmp_path, "".join(lines[:-1]))
    assert not short.passed and "the recording ended 1 replies too early" in short.reasons
    [long] = await replay(tmp_path, "".join([*lines, lines[-1]]))
    assert long.passed and long.replay is not None and long.replay.left == 1
    monkeypatch.setattr(prompt, "RULES", f"{prompt.RULES}{'Be kind to everybody. ' * 200}")
    [one] = await replay(tmp_path, "".join(lines))
    assert one.passed and one.replay is not None
    longer = one.replay.now.tokens_in - one.replay.then.tokens_in
    assert 700 * one.replay.now.calls < longer < 1_500 * one.replay.now.calls


def write_exchange(texts: Sequence[str], reply: ModelReply) -> str:
    """What is written down of one exchange."""
    ExchangeRecorder(file := io.StringIO()).build_exchange_writer("s", 0, "native")(
        ModelExchange(tuple(texts), '"tools":[]', reply, None, 1.5)
    )
    return file.getvalue()


def test_secrets_and_what_is_the_endpoints_own_are_not_written_and_texts_and_lines_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = dump_provider_details("here", {"opaque": "BLOB"})
    asked = attach_details(json.dumps({"role": "assistant", "content": "x"}), own)
    secret = json.dumps({"role": "user", "content": f"hunter2-hunter2 {'y' * 250_000}"})
    remember_secrets(["hunter2-hunter2"])
    try:
        line = write_exchange([secret, asked], ModelReply("key hunter2-hunter2", provider_details=own))
    finally:
        forget_secrets()
    assert "hunter2" not in line and "BLOB" not in line and "kept" not in line and len(line) < 110_000
    assert json.loads(line)["messages"][1] == {"role": "assistant", "content": "x"}
    monkeypatch.setattr(recording, "LINE_MAX", 20_000)
    texts = [json.dumps({"role": "user", "content": f"{n} {'z' * 1_000}"}) for n in range(300)]
    line = write_exchange(texts, ModelReply("ok"))
    assert len(line) <= 20_000 and json.loads(line)["left_out"] == 295, "the middle is left out"
    assert [one["content"].split()[0] for one in json.loads(line)["messages"]] == ["0", "1", "2", "3", "299"]


async def test_a_failure_is_replayed_too_and_a_probe_is_no_exchange() -> None:
    class Away:
        async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
            raise ModelUnavailableError("busy", cause=ModelFailureCause.BUSY)

    keep = ExchangeRecorder(file := io.StringIO()).build_exchange_writer("s", 0, "native")
    for content in (WORD, "hello"):
        with pytest.raises(ModelUnavailableError):
            await RecordingModel(Away(), keep).request_reply(
                [json.dumps({"role": "user", "content": content})], "", timeout_s=1
            )
    [line] = file.getvalue().splitlines()
    model = ReplayModel(deque([recording.RecordedExchange.model_validate_json(line)]))
    with pytest.raises(ModelUnavailableError, match="recorded: busy") as raised:
        await model.request_reply([], "", timeout_s=1)
    assert raised.value.cause is ModelFailureCause.BUSY
    with pytest.raises(ScriptExhaustedError):
        await model.request_reply([], "", timeout_s=1)


async def test_cards_are_told_by_the_order_in_which_they_came() -> None:
    asked = {"role": "system", "content": "- A01aaaaaaaaaaaa: x\n- A02bbbbbbbbbbbb: y"}
    call = {"id": "", "name": "cancel_card", "arguments": '{"card": "A02bbbbbbbbbbbb"}'}
    said = {"calls": [call], "text": "A01aaaaaaaaaaaa"}
    line = recording.RecordedExchange.model_validate({"scenario": "s", "messages": [asked], "reply": said})
    now = json.dumps({"role": "system", "content": "A09999999999999 and A08888888888888"})
    reply = await ReplayModel(deque([line])).request_reply([now], "", timeout_s=1)
    assert reply.text == "A09999999999999"
    assert reply.calls == (RawToolCall("", "cancel_card", '{"card": "A08888888888888"}'),)


GOOD = json.dumps({"scenario": "four_operations_zh", "reply": {"text": "x"}})


NOT_READ: dict[str | None, str] = {
    None: "cannot be read: No such file",
    "": "There is nothing in the recording",
    '{"a": 1}\n': "line 1, is not part of a recording",
    "hello\n": "line 1, is not part of a recording",
    f"{GOOD}\n{GOOD[:30]}": "breaks off in line 2",
    '{"scenario": "s", "countersign": 2, "reply": {}}\n': "line 1, is not part of a recording",
    '{"scenario": "s"}\n': "a reply, or why there was none",
    '{"scenario": "s", "reply": ' + "[" * 100_000 + "\n": "line 1, is not part of a recording",
}


def test_what_cannot_be_replayed_is_told_in_a_line(tmp_path: Path, subtests: pytest.Subtests) -> None:
    file = tmp_path / "said.jsonl"
    for text, said in NOT_READ.items():
        if text is not None:
            file.write_text(text, encoding="utf-8")
        with subtests.test(said), pytest.raises(CountersignError) as raised:
            read_recording(file, "en")
        assert said in str(raised.value) and "\n" not in str(raised.value)


# The command


@pytest.fixture
def english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path


def test_the_command_records_and_replays(english: Path) -> None:
    done = CliRunner().invoke(app, ["eval", "--only", "tell_him_as_well", "--record", "said.jsonl", "--each"])
    assert done.exit_code == 0 and "Written to said.jsonl" in done.output, done.output
    assert "tell_him_as_well_en" in done.output and "Tokens are estimated" in done.output
    assert "Mail" in done.output and "Model calls" in done.output
    again = CliRunner().invoke(app, ["eval", "--replay", "said.jsonl", "--json", "out.json", "--html", "out.html"])
    assert again.exit_code == 0, again.output
    assert "scenarios were not recorded" in again.output and "4 → 4" in again.output and "±0%" in again.output
    found = EvaluationReport.model_validate_json((english / "out.json").read_text())
    assert found.model == "a recording" and found.tokens_estimated and found.trials[0].replay is not None
    page = (english / "out.html").read_text()
    assert "4 → 4" in page and "Tokens are estimated" in page and "tell_him_as_well_en" in page


MISTAKES = {
    ("--replay", "none.jsonl"): "cannot be read",
    ("--replay", "s.jsonl", "--model", "slips"): "leave out --model",
    ("--replay", "s.jsonl", "--style", "text"): "leave out --style",
    ("--replay", "s.jsonl", "--repeat", "2"): "leave out --repeat",
    ("--replay", "s.jsonl", "--record", "t.jsonl"): "leave out --record",
    ("--replay", "s.jsonl", "--only", "half_day"): "nothing to play",
    ("--record", "no/such/folder.jsonl"): "cannot be written",
    ("--only", "nothing_like_it"): "No scenario has “nothing_like_it” in its name",
    ("--model", "gpt-6.1-terra"): "set OPENAI_MODEL and OPENAI_BASE_URL or OPENAI_API_KEY",
    ("--scenarios", "nowhere"): "nowhere is not a folder",
    ("--only", "half_day_by_rule_zh", "--style", "text"): "nothing to play",
}


def test_a_mistake_is_one_line_and_a_recorded_scenario_that_is_not_here_is_told(
    english: Path, subtests: pytest.Subtests
) -> None:
    (english / "s.jsonl").write_text(f"{GOOD}\n", encoding="utf-8")
    for arguments, wrong in MISTAKES.items():
        with subtests.test(arguments=arguments):
            failed = CliRunner().invoke(app, ["eval", *arguments])
            assert isinstance(failed.exception, CountersignError) and wrong in str(failed.exception)
            assert "\n" not in str(failed.exception) and not (english / "t.jsonl").exists()
    other = json.dumps({"scenario": "somebody_elses", "reply": {"text": "x"}})
    (english / "s.jsonl").write_text(f"{GOOD}\n{other}\n", encoding="utf-8")
    told = CliRunner().invoke(app, ["eval", "--replay", "s.jsonl"])
    assert "1 recorded scenario does not exist here and is skipped: somebody_elses" in told.output
