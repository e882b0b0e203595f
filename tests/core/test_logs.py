import asyncio
import io
import json
import logging
import warnings

import pytest

from bot.core import logs
from bot.ops.log_output import configure_logging, redact_value


def written(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


async def test_a_line_has_its_fields_and_the_context_of_its_task_only(stream: io.StringIO) -> None:
    configure_logging("INFO", json=True, stream=stream)

    async def run(name: str) -> None:
        logs.bind_context(run=name)
        await asyncio.sleep(0)
        logs.get_logger("bot").info("ours")
        logging.getLogger("slack_sdk").info("theirs")

    await asyncio.gather(asyncio.create_task(run("R1")), asyncio.create_task(run("R2")))
    logs.get_logger("bot").info("outside")
    lines = sorted(f"{line['event']} {line.get('run')}" for line in written(stream))
    assert lines == ["ours R1", "ours R2", "outside None", "theirs R1", "theirs R2"]
    logs.get_logger("bot.conversation.turn").info("step", number=3, tool="查人")
    line = written(stream)[-1]
    assert str(line.pop("timestamp")).endswith("Z")
    assert line == {"event": "step", "level": "info", "logger": "bot.conversation.turn", "number": 3, "tool": "查人"}


def test_json_unless_it_is_a_terminal(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    configure_logging("INFO", stream=stream)
    logs.get_logger("bot").info("for machines")
    assert written(stream)[0]["event"] == "for machines"
    stream.truncate(0)
    monkeypatch.setattr(stream, "isatty", lambda: True)
    configure_logging("INFO", stream=stream)
    logs.get_logger("bot").info("for people")
    assert "\x1b[" in stream.getvalue()


def test_what_says_whole_payloads_is_held_to_its_level_and_never_below_ours(stream: io.StringIO) -> None:
    warned = ("httpx", "httpx2", "httpcore", "openai", "aiohttp.access", "asyncio", "mail.log", "slack_bolt")
    least = dict.fromkeys(warned, logging.WARNING) | {"slack_sdk": logging.INFO}
    least["opentelemetry"] = logging.CRITICAL
    for level, expected in (("debug", least), ("CRITICAL", dict.fromkeys(least, logging.CRITICAL))):
        configure_logging(level, json=True, stream=stream)
        assert {name: logging.getLogger(name).level for name in least} == expected
        assert logging.getLogger().level == logging.getLevelNamesMapping()[level.upper()]


def test_no_library_writes_below_info_whatever_level_it_gives_itself(stream: io.StringIO) -> None:
    configure_logging("DEBUG", json=True, stream=stream)
    for name in (
        "slack_bolt.IgnoringSelfEvents",
        "countersign:AsyncApp",
        "some.library",
        "bot.platforms.slack.listeners",
    ):
        logger = logging.getLogger(name)
        logger.setLevel(logging.DEBUG)
        logger.debug("reason of %s", name)
        logger.setLevel(logging.NOTSET)
    assert [line["event"] for line in written(stream)] == ["reason of bot.platforms.slack.listeners"]


def test_values_of_every_kind_are_redacted_and_others_stay_what_they_are() -> None:
    secret, masked = "xoxb-123-456-abcdef", "xoxb-***"
    nested = {"a": [secret, (secret, 1)], "b": {"c": {secret}, "d": frozenset({secret})}, "e": None, "f": 1.5}
    redacted = {"a": [masked, [masked, 1]], "b": {"c": [masked], "d": [masked]}, "e": None, "f": 1.5}
    assert redact_value(nested) == redacted
    assert redact_value(b"x") == b"x"


def test_lines_of_libraries_have_time_level_logger_and_fields_and_warnings_are_lines_too(stream: io.StringIO) -> None:
    configure_logging("INFO", json=True, stream=stream)
    logging.getLogger("slack_sdk.web").info("posted 中文", extra={"channel": "C1"})
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.warn("old", stacklevel=1)
    ours, warned = written(stream)
    assert str(ours["timestamp"]).endswith("Z") and "T" in str(ours.pop("timestamp"))
    assert ours == {"event": "posted 中文", "level": "info", "logger": "slack_sdk.web", "channel": "C1"}
    assert "中文" in stream.getvalue(), "as it can be read"
    assert (warned["logger"], warned["level"]) == ("py.warnings", "warning") and "old" in str(warned["event"])


@pytest.mark.parametrize("as_json", [True, False])
def test_a_traceback_says_where_and_what_and_no_variable(stream: io.StringIO, as_json: bool) -> None:
    configure_logging("INFO", json=as_json, stream=stream)
    hidden = "a variable of ours".upper()
    try:
        raise ValueError("xoxb-123-456-abcdef")
    except ValueError:
        logs.get_logger("bot").exception("failed", hint="x")
    text = stream.getvalue()
    assert "Traceback" in text and "test_logs.py" in text and "ValueError: xoxb-***" in text
    assert hidden not in text
    if as_json:
        [line] = written(stream)
        assert (line["event"], line["hint"]) == ("failed", "x") and "Traceback" in str(line["exception"])


def test_nobody_else_writes_and_what_is_forgotten_stands_on_no_line(stream: io.StringIO) -> None:
    before = io.StringIO()
    logging.getLogger().addHandler(logging.StreamHandler(before))
    configure_logging("INFO", json=True, stream=stream)
    logs.bind_context(run="R1")
    logs.clear_context()
    logs.get_logger("bot").info("x")
    logs.get_logger("bot").debug("y")
    assert before.getvalue() == "" and "run" not in written(stream)[0] and len(written(stream)) == 1
