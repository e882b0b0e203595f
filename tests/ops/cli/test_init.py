"""`countersign init`: what it asks, what it writes, and what it leaves alone."""

import json
import os
import pty
import select
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from dotenv import dotenv_values
from hypothesis import given
from hypothesis import strategies as st

from bot.ops.cli.init import ASKED
from bot.ops.env_file import (
    HEADING,
    EnvFileChangedError,
    find_answer_problem,
    merge_env_text,
    parse_env_text,
    write_env_file,
)
from tests.harness.programs import PATIENCE_S, ROOT, Ended, ran

BOT, APP, KEY = "xoxb-1234-not-a-real-one", "xapp-1-not-a-real-one", "sk-not-a-real-one"
ENGLISH, CHINESE = {"LANG": "en_US.UTF-8"}, {"LANG": "zh_CN.UTF-8"}


ON_TERMINAL = """
import fcntl, runpy, termios
from bot.dev import real_models
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # from now on Ctrl-C comes to this process
real_models.ANSWER_S = 10.0  # however busy the machine is
runpy.run_module("bot", run_name="__main__", alter_sys=True)
"""


async def init(folder: Path, *options: str, **env: str) -> Ended:
    return await ran("init", *options, cwd=folder, env={**ENGLISH, **env})


class Terminal:
    """A terminal on which somebody types answers."""

    def __init__(self, screen: int, child: subprocess.Popen[bytes]) -> None:
        self.screen, self.child, self.said = screen, child, ""

    def wait_for(self, words: str) -> None:
        late = time.monotonic() + PATIENCE_S
        while words not in self.said:
            assert time.monotonic() < late and self.read(), f"no word of {words!r}: {self.said}"

    def read(self) -> bool:
        if not select.select([self.screen], [], [], PATIENCE_S)[0]:
            return False
        try:
            told = os.read(self.screen, 65536)
        except OSError:  # the other side is gone
            return False
        self.said += told.decode(errors="replace")
        return bool(told)

    def answer(self, prompt: str, text: str) -> None:
        self.wait_for(f"  {prompt}")
        self.said = ""
        os.write(self.screen, f"{text}\n".encode())

    def answer_all(self, **answers: str) -> None:
        for prompt, text in answers.items():
            self.answer(prompt, text)

    def end(self) -> int:
        while self.read():
            pass
        return self.child.wait(PATIENCE_S)


@contextmanager
def terminal(folder: Path, *options: str, **env: str) -> Iterator[Terminal]:
    """`countersign init` on a terminal that is its own."""
    screen, line = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL, "init", *options],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **env},
        stdin=line,
        stdout=line,
        stderr=line,
        start_new_session=True,
    )
    os.close(line)
    try:
        yield Terminal(screen, child)
    finally:
        os.close(screen)
        child.kill()
        child.wait()


@contextmanager
def answering(models: dict[str, Any]) -> Iterator[str]:
    """A model server on Ollama's port; yields its address, or an empty text if another program has the port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(models).encode())

    try:
        server = ThreadingHTTPServer(("127.0.0.1", 11434), Answer)
    except OSError:
        yield ""
        return
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield "http://127.0.0.1:11434/v1"
    finally:
        server.shutdown()
        server.server_close()


def list_files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


async def test_without_questions_it_takes_the_environment(tmp_path: Path) -> None:
    end = await init(tmp_path, "--no-input", SLACK_BOT_TOKEN=BOT, SLACK_APP_TOKEN=APP, OPENAI_API_KEY=KEY)
    assert end.code == 0, end
    assert dotenv_values(tmp_path / ".env") == {"SLACK_BOT_TOKEN": BOT, "SLACK_APP_TOKEN": APP, "OPENAI_API_KEY": KEY}
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600 and list_files(tmp_path) == [".env"]
    assert not any(secret in end.all for secret in (BOT, APP, KEY)) and "Redis, mail" in end.out


async def test_what_exists_is_left_alone_unless_it_is_said_and_without_a_terminal_it_waits_for_no_answer(
    tmp_path: Path,
) -> None:
    end, file = await init(tmp_path), tmp_path / ".env"
    assert end.code == 1 and "--no-input" in end.err and list_files(tmp_path) == []
    before = '# mine\nSTEPS=quiet\nOPENAI_API_KEY=sk-old\nMAIL_FROM="a@b.example"\n'
    file.write_text(before)
    refused = await init(tmp_path, "--no-input", OPENAI_API_KEY=KEY)
    assert refused.code == 1 and "--replace" in refused.err and file.read_text() == before
    changed = await init(tmp_path, "--no-input", "--replace", OPENAI_API_KEY=KEY)
    text = file.read_text()
    assert changed.code == 0 and text.startswith("# mine\nSTEPS=quiet\n") and "sk-old" not in text, changed
    assert dotenv_values(file) == {"STEPS": "quiet", "OPENAI_API_KEY": KEY, "MAIL_FROM": "a@b.example"}
    again = await init(tmp_path, "--no-input", "--replace", OPENAI_API_KEY=KEY)
    assert again.code == 0 and file.read_text() == text, "a second time changes nothing"


WRONG: tuple[tuple[dict[str, str], str], ...] = (
    ({"SLACK_BOT_TOKEN": "xoxp-secret-1"}, "begins with xoxb-"),
    ({"SLACK_BOT_TOKEN": BOT}, "SLACK_APP_TOKEN is missing"),
    ({"FEISHU_APP_ID": "cli_a0"}, "FEISHU_APP_SECRET"),
    ({"FEISHU_DOMAIN": "secret-1"}, "feishu or lark"),
    ({"OPENAI_API_KEY": "sk-secret-1 and more"}, "no blanks"),
    ({"REDIS_URL": "http://secret-1@host"}, "redis://host:6379/0"),
    ({"SMTP_URL": "smtp//secret-1@host"}, "smtps://"),
    ({"COMPANY_TIMEZONE": "Mars/Olympus"}, "IANA"),
    ({"DIRECTORY_FILE": "gone.toml"}, "no such file"),
    ({"REDIS_URL": "redis://:$(id)secret-1@host"}, "%24"),
    ({"MAIL_FROM": "a@b.example,c@d.example"}, "one e-mail address"),
)


async def test_a_wrong_value_is_told_and_nothing_is_written(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for wrong, says in WRONG:
        with subtests.test(says):
            end = await init(tmp_path, "--no-input", **wrong)
            assert end.code == 1 and says in end.err, end
            assert "secret-1" not in end.all and list_files(tmp_path) == []


def test_somebody_answers_in_chinese(tmp_path: Path) -> None:
    answers = {"SLACK_BOT_TOKEN": BOT, "SLACK_APP_TOKEN": APP}
    others = {
        "OPENAI_BASE_URL": "http://127.0.0.1:11434/v1", "OPENAI_MODEL": "qwen4",
        "REDIS_URL": "redis://:p%24w@store:6379/0", "COMPANY_TIMEZONE": "Europe/Berlin",
    }  # fmt: skip
    with terminal(tmp_path, **CHINESE) as shown:
        shown.wait_for("slack-manifest.yaml")
        shown.answer("SLACK_BOT_TOKEN", "xapp-the-other-one")
        shown.wait_for("以 xoxb- 开头")
        shown.answer_all(**answers)
        assert BOT not in shown.said, "a secret is not shown while it is typed"
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "REDIS_URL", "SMTP_URL", "COMPANY_TIMEZONE",
                     "DIRECTORY_FILE"):  # fmt: skip
            shown.answer(name, others.get(name, ""))
        assert shown.end() == 0
    assert "邮件" in shown.said and "countersign doctor" in shown.said
    assert dotenv_values(tmp_path / ".env") == answers | others


def test_a_model_server_and_a_key_are_offered_and_only_taken_when_somebody_says_so(tmp_path: Path) -> None:
    """Enter takes what stands in brackets; a key is never offered to a server of this machine."""
    models = {"data": [{"id": "qwen3:8b", "owned_by": "library"}]}
    rest = {"REDIS_URL": "", "SMTP_URL": "", "COMPANY_TIMEZONE": "Asia/Shanghai", "DIRECTORY_FILE": ""}
    with answering(models) as url:
        with terminal(tmp_path, **ENGLISH, OPENAI_API_KEY=KEY) as shown:
            shown.answer_all(SLACK_BOT_TOKEN="", FEISHU_APP_ID="")
            shown.wait_for("OPENAI_API_KEY is set in the environment")
            if url:
                assert f"a real model: qwen3:8b (Ollama) at {url}." in shown.said
            shown.answer("OPENAI_API_KEY (", "-")
            shown.wait_for("  OPENAI_BASE_URL")
            offered = (
                {f"OPENAI_BASE_URL [{url}]": "", "OPENAI_MODEL [qwen3:8b]": ""} if url else {"OPENAI_BASE_URL": "-"}
            )
            shown.answer_all(**offered, **rest)
            assert shown.end() == 0
        taken = {"OPENAI_BASE_URL": url, "OPENAI_MODEL": "qwen3:8b"} if url else {}
        assert dotenv_values(tmp_path / ".env") == {**taken, "COMPANY_TIMEZONE": "Asia/Shanghai"}
        with terminal(tmp_path, "--file", "other", **CHINESE, OPENAI_API_KEY=KEY) as shown:
            shown.answer_all(SLACK_BOT_TOKEN="", FEISHU_APP_ID="xoxb-of-slack")
            shown.wait_for("App ID 以 cli_ 开头")
            on_lark = {"FEISHU_APP_ID": "cli_a0", "FEISHU_APP_SECRET": "feishu-secret-1", "FEISHU_DOMAIN": "lark"}
            for prompt, text in zip(
                ("FEISHU_APP_ID", "FEISHU_APP_SECRET", "FEISHU_DOMAIN [feishu]"), on_lark.values(), strict=True
            ):
                shown.answer(prompt, text)
            assert "feishu-secret-1" not in shown.said
            shown.wait_for("环境变量里有 OPENAI_API_KEY，回车就用它。")
            shown.answer("OPENAI_API_KEY (", "")
            assert KEY not in shown.said
            shown.answer_all(**{"OPENAI_BASE_URL:": "", "OPENAI_MODEL": "", **rest})
            assert shown.end() == 0
        others = {"OPENAI_API_KEY": KEY, "COMPANY_TIMEZONE": "Asia/Shanghai"}
        assert dotenv_values(tmp_path / "other") == {**on_lark, **others}


def test_ctrl_c_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("STEPS=quiet\n")
    with terminal(tmp_path, **ENGLISH) as shown:
        shown.wait_for("[y/N]")
        os.write(shown.screen, b"y\n")
        shown.answer("SLACK_BOT_TOKEN", BOT)
        shown.wait_for("  SLACK_APP_TOKEN")
        os.write(shown.screen, b"\x03")
        assert shown.end() == 130
    assert "Nothing was written" in shown.said and "Traceback" not in shown.said
    assert list_files(tmp_path) == [".env"] and (tmp_path / ".env").read_text() == "STEPS=quiet\n"


@given(st.sampled_from(ASKED), st.text(max_size=40))
def test_what_is_accepted_is_read_back_as_it_is(name: str, value: str) -> None:
    value = value.strip()
    if find_answer_problem(name, value):
        return
    written = merge_env_text("STEPS=quiet\n", {name: value})
    line = written.splitlines()[-1]
    expected = {"STEPS": "quiet", **({name: value} if value else {})}
    assert parse_env_text(written) == expected
    assert not value or shlex.split(line) == [f"{name}={value}"], "a shell, and with it systemd, reads the same"


@given(st.lists(st.sampled_from(["# a", "", "STEPS=quiet", "export TRACES=off", 'NOTE="two\nlines"', "odd line"])))
def test_lines_that_are_not_asked_about_stay(lines: list[str]) -> None:
    before = "\n".join(lines)
    after = merge_env_text(before, {"OPENAI_MODEL": "m"})
    assert after.startswith(before.rstrip("\n")) and after.endswith(f"{HEADING}\nOPENAI_MODEL=m\n")


def test_what_somebody_else_has_written_meanwhile_stays_and_so_do_a_link_and_their_ownership(tmp_path: Path) -> None:
    file, kept = tmp_path / ".env", tmp_path / "kept"
    for stood, stands in ((None, "A=1\n"), ("A=1\n", "A=2\n")):
        file.write_text(stands)
        with pytest.raises(EnvFileChangedError):
            write_env_file(file, "B=1\n", stood)
        assert file.read_text() == stands and list_files(tmp_path) == [".env"]
    write_env_file(file, "B=1\n", stands)
    assert file.read_text() == "B=1\n", "control: nobody has written it"
    file.rename(kept).chmod(0o644)
    file.symlink_to(kept)
    write_env_file(file, "C=1\n", "B=1\n")
    assert file.is_symlink() and kept.read_text() == "C=1\n" and kept.stat().st_mode & 0o777 == 0o600
    if os.geteuid() == 0:  # only root writes a file for somebody else
        os.chown(kept, 12345, 12346)
        write_env_file(file, "D=1\n", "C=1\n")
        assert (kept.stat().st_uid, kept.stat().st_gid, kept.stat().st_mode & 0o777) == (12345, 12346, 0o600)
