"""`countersign init`: asks the five questions that configure a bot for its owner, and writes `.env`."""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from bot.app.setting_names import read_optional_text
from bot.app.settings import ENV_FILE, Settings
from bot.core.errors import SettingsError
from bot.core.i18n import detect_terminal_language, translate
from bot.ops.cli.console import sanitize_for_terminal
from bot.ops.env_file import (
    EnvFileChangedError,
    find_answer_problem,
    is_secret_setting,
    merge_env_text,
    parse_env_text,
    require_consistent_values,
    write_env_file,
)

app = typer.Typer()
CLEAR = "-"
SHIPPED = "slack-manifest.yaml"


@dataclass(frozen=True, slots=True)
class Question:
    """One question, and the settings that answer it. A setting in `needs` is asked for only if one of the settings
    named there has a value, and one in `spared` only if the setting named there has none; the others always are."""

    key: str
    names: tuple[str, ...]
    needs: Mapping[str, tuple[str, ...]]
    spared: Mapping[str, str] = field(default_factory=dict)


QUESTIONS = (
    Question(
        "chat",
        ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "FEISHU_APP_ID", "FEISHU_APP_SECRET", "FEISHU_DOMAIN"),
        {
            "SLACK_APP_TOKEN": ("SLACK_BOT_TOKEN",),
            **dict.fromkeys(("FEISHU_APP_SECRET", "FEISHU_DOMAIN"), ("FEISHU_APP_ID",)),
        },
        {"FEISHU_APP_ID": "SLACK_BOT_TOKEN"},
    ),
    Question(
        "model",
        ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"),
        {"OPENAI_MODEL": ("OPENAI_API_KEY", "OPENAI_BASE_URL")},
    ),
    Question("redis", ("REDIS_URL",), {}),
    Question("mail", ("SMTP_URL", "MAIL_FROM"), {"MAIL_FROM": ("SMTP_URL",)}),
    Question("company", ("COMPANY_TIMEZONE", "DIRECTORY_FILE"), {}),
)
ASKED = tuple(name for question in QUESTIONS for name in question.names)


@app.command()
def init(
    no_input: Annotated[
        bool, typer.Option("--no-input", help="Ask nothing: take the values from environment variables.")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Change a file that exists already.")] = False,
    file: Annotated[Path, typer.Option("--file", help="Where to.", dir_okay=False)] = ENV_FILE,
) -> None:
    """Ask five questions and write .env, for its owner alone. They are about Slack or Feishu, the model, Redis, mail
    and the company. Secrets are never given as options, which others on the machine can read: --no-input takes them
    from the environment."""
    language = detect_terminal_language()
    try:
        before = read_optional_text(file)
        if not no_input and not sys.stdin.isatty():
            raise SettingsError(translate("init.no_terminal", language))
        may_replace = before is None or replace
        if not may_replace and (no_input or not typer.confirm(translate("init.replace", language, file=file))):
            raise SettingsError(translate("init.exists", language, file=file))
        now = parse_env_text(before or "")
        if no_input:
            answers = {name: os.environ.get(name, "").strip() or now.get(name, "") for name in ASKED}
            wrong = [
                translate("init.problem", language, name=name, problem=translate(key, language))
                for name, value in answers.items()
                if (key := find_answer_problem(name, value))
            ]
            if wrong:
                raise SettingsError(" ".join(wrong))
        else:
            answers = _ask_questions(file, now, language)
        values = {name: value for name, value in {**now, **answers}.items() if value}
        require_consistent_values(values)
        write_env_file(file, merge_env_text(before or "", answers), before)
    except EnvFileChangedError:
        raise SettingsError(translate("init.changed", language, file=file)) from None
    except (KeyboardInterrupt, EOFError, typer.Abort):
        typer.echo("\n" + translate("init.cancelled", language), err=True)
        raise typer.Exit(130) from None
    typer.echo(translate("init.written", language, file=file))
    real = {
        "workspace": bool({"SLACK_BOT_TOKEN", "FEISHU_APP_ID"} & values.keys()),
        "model": bool({"OPENAI_API_KEY", "OPENAI_BASE_URL"} & values.keys()),
        "redis": "REDIS_URL" in values,
        "mail": "SMTP_URL" in values,
    }
    between = translate("card.comma", language)
    if missing := between.join(translate(f"init.{name}", language) for name, is_real in real.items() if not is_real):
        typer.echo(translate("init.stand_ins", language, names=missing))
    if others := between.join(name for name in ASKED if os.environ.get(name) not in (None, "", values.get(name))):
        typer.echo(translate("init.overridden", language, names=others))
    typer.echo(translate("init.next", language))


def _ask_questions(file: Path, now: Mapping[str, str], language: str) -> dict[str, str]:
    typer.echo(translate("init.welcome", language, file=file))
    answers = dict[str, str]()
    for number, question in enumerate(QUESTIONS, 1):
        manifest = find_shipped_file(SHIPPED) if question.key == "chat" else ""
        text = translate(f"init.ask_{question.key}", language, **({"manifest": manifest} if manifest else {}))
        typer.echo(f"\n{number}/{len(QUESTIONS)} {text}")
        is_model_open = question.key == "model" and not {"OPENAI_API_KEY", "OPENAI_BASE_URL"} & now.keys()
        found = _find_models(language) if is_model_open else {}
        for name in question.names:
            needed = question.needs.get(name, ())
            is_spared = bool(answers.get(question.spared.get(name, "")))
            is_asked = not is_spared and (not needed or any(answers[one] for one in needed))
            offer = _choose_offer(name, answers, found) if is_model_open else ""
            answers[name] = _ask_value(name, now.get(name, ""), language, offer) if is_asked else ""
    return answers


def _find_models(language: str) -> dict[str, str]:
    """Name the real models within reach. Return those of this machine: address → model."""
    from bot.dev.real_models import find_real_models  # slow to import

    models = asyncio.run(find_real_models())
    for one in models:
        key = "init.found" if one.url else "init.found_key"
        typer.echo(f"  {translate(key, language, name=one.name, url=one.url)}")
    return {one.url: one.model for one in models if one.url}


def _choose_offer(name: str, answers: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Choose the value that Enter takes: the key in the environment, or a model of this machine, which gets no key."""
    if name == "OPENAI_API_KEY":
        return os.environ.get(name, "").strip()
    if name == "OPENAI_BASE_URL":
        return "" if answers["OPENAI_API_KEY"] else next(iter(found), "")
    return found.get(answers["OPENAI_BASE_URL"], "")


def _ask_value(name: str, now: str, language: str, offer: str = "") -> str:
    """Ask until the value passes its check. Enter takes the present value, or else the offer."""
    secret, default = is_secret_setting(name), Settings.model_fields[name.lower()].default
    shown = now or offer or ("" if default is None else str(default))
    if (secret and shown) or "://" in now:
        shown = translate("init.kept", language)
    prompt = f"  {name}" + (f" ({translate('init.hidden', language)})" if secret else "")
    while True:
        prompted = f"{prompt} [{shown}]" if shown else prompt
        if secret:  # no typed character is shown from the moment the prompt appears
            given = getpass.getpass(f"{prompted}: ").strip()
        else:
            given = typer.prompt(prompted, default="", show_default=False).strip()
        value = "" if given == CLEAR else given or now or offer
        if not (problem := find_answer_problem(name, value)):
            return value
        typer.secho(f"  {sanitize_for_terminal(translate(problem, language))}", fg="yellow", err=True)


def find_shipped_file(name: str) -> str:
    """Return the path of a file of `deploy`, in the source tree or where the wheel has installed it; its name if
    neither has it."""
    places = (Path(__file__).parents[3] / "deploy" / name, Path(sys.prefix) / "share" / "countersign" / name)
    return str(next((place for place in places if place.is_file()), name))
