from __future__ import annotations

import asyncio
import io
import json
import logging
import warnings

import pytest

from bot.core import logs

SECRETS = [
    ("xoxb-123-456-abcDEF", "xoxb-***"),
    ("xoxp-local-1", "xoxp-***"),
    ("xoxe.xoxp-1-Mi0yLTE", "xoxe-***"),
    ("xapp-1-A0-99-abc", "xapp-***"),
    ("sk-proj-Ab_c-123456", "sk-***"),
    ("Authorization: Bearer eyJhb.GciOi-J_9=", "Authorization: Bearer ***"),
    ("redis://user:pa55@host:6379/0", "redis://user:***@host:6379/0"),
    ("redis://:pa55@host.example.com", "redis://:***@host.example.com"),
    ("smtps://bot%40x:p%40ss@mail", "smtps://bot%40x:***@mail"),
    ("wss://link/?ticket=abc-1&app_id=2", "wss://link/?ticket=***&app_id=2"),
    ("https://hooks.slack.com/actions/T1/2/abc", "https://hooks.slack.com/actions/***"),
    ('{"password": "hunter22"}', '{"password": "***"}'),
    ("signing_secret=0123abc", "signing_secret=***"),
    ("lisi@example.com", "l***@example.com"),
    ("李四 <li.si+x@mail.example.co.uk>", "李四 <l***@mail.example.co.uk>"),
]
HARMLESS = ["task-12345678 risk-1234567", "tokens: 12", "R03abc @李四 a@b", "Bearer", "10:30", "unix:///run/redis.sock"]


def written(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(("secret", "shown"), SECRETS)
def test_redact(secret: str, shown: str) -> None:
    assert logs.redact_text(f"say {secret} twice") == f"say {shown} twice"
    assert logs.redact_text(shown) == shown


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert logs.redact_text(text) == text


@pytest.mark.parametrize("secret", [secret for secret, _ in SECRETS])
def test_redacted_json_is_still_json(secret: str) -> None:
    line = json.dumps({"a": f'he said "{secret}" and {json.dumps({"b": secret})}', "c": 1})
    assert json.loads(logs.redact_text(line))["c"] == 1


@pytest.mark.parametrize("name", ["bot.x", "slack_sdk.web", "slack_bolt.App", "openai", "httpx2", "aiohttp.client"])
@pytest.mark.parametrize("as_json", [True, False])
def test_no_logger_writes_a_secret(stream: io.StringIO, name: str, as_json: bool) -> None:
    secret = "xoxb-123-456-abcdef"
    logs.configure_logging("DEBUG", json=as_json, stream=stream)
    logger = logging.getLogger(name)
    logger.warning("posting with %s", secret, extra={"headers": {"Authorization": f"Bearer {secret}"}})
    try:
        raise ValueError(f"bad token {secret}")
    except ValueError:
        logger.exception("failed")
    logs.get_logger(name).error("structured", token=secret, nested={"mail": "lisi@example.com"})
    assert secret not in stream.getvalue()
    assert "lisi@" not in stream.getvalue()
    assert stream.getvalue().count("xoxb-***") >= 3


def test_negative_control_without_the_redaction_the_secret_is_written(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "redact_text", lambda text: text)
    logs.configure_logging("INFO", json=True, stream=stream)
    logging.getLogger("slack_sdk").warning("xoxb-123-456-abcdef")
    assert "xoxb-123-456-abcdef" in stream.getvalue()


async def test_context_stands_on_every_line_of_its_task_only(stream: io.StringIO) -> None:
    logs.configure_logging("INFO", json=True, stream=stream)

    async def run(name: str) -> None:
        logs.bind_context(run=name)
        await asyncio.sleep(0)
        logs.get_logger("bot").info("ours")
        logging.getLogger("slack_sdk").info("theirs")

    await asyncio.gather(asyncio.create_task(run("R1")), asyncio.create_task(run("R2")))
    logs.get_logger("bot").info("outside")
    lines = [(line["event"], line.get("run")) for line in written(stream)]
    assert sorted(lines, key=str) == [
        ("ours", "R1"), ("ours", "R2"), ("outside", None), ("theirs", "R1"), ("theirs", "R2"),
    ]  # fmt: skip


def test_a_line_has_time_level_logger_and_fields(stream: io.StringIO) -> None:
    logs.configure_logging("INFO", json=True, stream=stream)
    logs.get_logger("bot.conversation.turn").info("step", number=3, tool="查人")
    [line] = written(stream)
    assert (line["event"], line["level"], line["logger"], line["number"], line["tool"]) == (
        "step", "info", "bot.conversation.turn", 3, "查人",
    )  # fmt: skip
    assert str(line["timestamp"]).endswith("Z")


def test_noisy_libraries_are_quiet_and_levels_are_kept(stream: io.StringIO) -> None:
    logs.configure_logging("DEBUG", json=True, stream=stream)
    for name in logs.LIBRARY_LEVELS:
        logging.getLogger(name).debug("a whole payload")
    logging.getLogger("httpx").info("a request")
    logs.get_logger("bot").debug("ours")
    assert [line["event"] for line in written(stream)] == ["ours"]
    logs.configure_logging("ERROR", json=True, stream=stream)
    logging.getLogger("slack_sdk").warning("less than asked for")
    assert len(written(stream)) == 1


def test_json_unless_it_is_a_terminal(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.configure_logging("INFO", stream=stream)
    logs.get_logger("bot").info("for machines")
    assert written(stream)[0]["event"] == "for machines"
    stream.truncate(0)
    monkeypatch.setattr(stream, "isatty", lambda: True)
    logs.configure_logging("INFO", stream=stream)
    logs.get_logger("bot").info("for people")
    assert "\x1b[" in stream.getvalue()


@pytest.mark.parametrize(
    ("name", "least"),
    [
        *((name, logging.WARNING) for name in ("httpx", "httpx2", "httpcore", "openai", "aiohttp.access", "asyncio")),
        ("mail.log", logging.WARNING),
        ("opentelemetry", logging.CRITICAL),
        ("slack_sdk", logging.INFO),
        ("slack_bolt", logging.INFO),
    ],
)
def test_what_says_whole_payloads_is_held_to_its_level_and_never_below_ours(
    stream: io.StringIO, name: str, least: int
) -> None:
    for level, expected in (("debug", least), ("CRITICAL", logging.CRITICAL)):
        logs.configure_logging(level, json=True, stream=stream)
        assert logging.getLogger(name).level == expected
        assert logging.getLogger().level == logging.getLevelNamesMapping()[level.upper()]


def test_values_of_every_kind_are_redacted_and_others_stay_what_they_are() -> None:
    secret, masked = "xoxb-123-456-abcdef", "xoxb-***"
    nested = {"a": [secret, (secret, 1)], "b": {"c": {secret}, "d": frozenset({secret})}, "e": None, "f": 1.5}
    redacted = {"a": [masked, [masked, 1]], "b": {"c": [masked], "d": [masked]}, "e": None, "f": 1.5}
    assert logs.redact_value(nested) == redacted
    assert logs.redact_value(b"x") == b"x"


def test_lines_of_libraries_have_time_level_logger_and_fields_and_warnings_are_lines_too(stream: io.StringIO) -> None:
    logs.configure_logging("INFO", json=True, stream=stream)
    logging.getLogger("slack_sdk.web").info("posted 中文", extra={"channel": "C1"})
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.warn("old", stacklevel=1)
    ours, warned = written(stream)
    assert (ours["event"], ours["level"], ours["logger"], ours["channel"]) == (
        "posted 中文",
        "info",
        "slack_sdk.web",
        "C1",
    )
    assert str(ours["timestamp"]).endswith("Z") and "T" in str(ours["timestamp"])
    assert "中文" in stream.getvalue(), "as it can be read"
    assert (warned["logger"], warned["level"]) == ("py.warnings", "warning") and "old" in str(warned["event"])
    assert not [name for name in ours if name.startswith("_")], "what the formatter notes for itself is left out"


@pytest.mark.parametrize("as_json", [True, False])
def test_a_traceback_says_where_and_what_and_no_variable(stream: io.StringIO, as_json: bool) -> None:
    logs.configure_logging("INFO", json=as_json, stream=stream)
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


def test_a_secret_is_redacted_before_a_terminals_colours_come_between(stream: io.StringIO) -> None:
    logs.configure_logging("INFO", json=False, stream=stream)
    logs.get_logger("bot").info("x", url="https://u:hunter22@host/", nested={"password": "hunter22"})
    assert "hunter22" not in stream.getvalue() and "***" in stream.getvalue()


def test_nobody_else_writes_and_what_is_forgotten_stands_on_no_line(stream: io.StringIO) -> None:
    before = io.StringIO()
    logging.getLogger().addHandler(logging.StreamHandler(before))
    logs.configure_logging("INFO", json=True, stream=stream)
    logs.bind_context(run="R1")
    logs.clear_context()
    logs.get_logger("bot").info("x")
    logs.get_logger("bot").debug("y")
    assert before.getvalue() == "" and "run" not in written(stream)[0] and len(written(stream)) == 1
