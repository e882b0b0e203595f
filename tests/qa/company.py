"""The people of a company that is made up: who they are, who leads whom, and what they see of the bot."""

from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache
from pathlib import Path

from bot.dev.workspace.feishu.world import APP_ID
from bot.dev.workspace.world import Json, WorkspaceMember
from tests.harness.office import APP_TOKEN, BOT_TOKEN, CHAT, SECRET, name_id
from tools.workflow.process.calendar import WorkCalendar

DIRECTORS, TEAM = 3, 8  # the first people are directors; then every eighth one leads a team
ROLES = ("director", "finance")
AHEAD, WEEKS = timedelta(weeks=3), 80


def get_person_id(number: int) -> str:
    return name_id(f"U0P{number:05d}")


def get_dm(person: str) -> str:
    return f"oc_p2p{person[3:]}" if CHAT == "feishu" else f"D{person[1:]}"


def is_dm(channel: str) -> bool:
    return channel.startswith(("D", "oc_p2p"))


def get_owner(dm: str) -> str:
    return f"ou_{dm[6:]}" if CHAT == "feishu" else f"U{dm[1:]}"


def get_email(number: int) -> str:
    return f"p{number}@example.com"


def is_leader(number: int) -> bool:
    """Directors and team leads: people whom others name as approver."""
    return number < DIRECTORS or number % TEAM == DIRECTORS


def get_manager(number: int) -> int:
    """Leaders have a director, everybody else their team's lead."""
    return (number + 1) % DIRECTORS if is_leader(number) else (number - DIRECTORS) // TEAM * TEAM + DIRECTORS


def build_members(count: int) -> tuple[WorkspaceMember, ...]:
    return tuple(
        WorkspaceMember(
            get_person_id(n), f"p{n}", f"Person {n}", email=get_email(n), locale="zh-CN" if n % 3 else "en-US",
            tz="Asia/Shanghai",
        )
        for n in range(count)
    )  # fmt: skip


def build_directory_file(count: int) -> str:
    return "\n".join(
        f'[[person]]\nemail = "{get_email(n)}"\nmanager = "{get_email(get_manager(n))}"\n'
        f"roles = {list(ROLES) if n < DIRECTORS else []}"
        for n in range(count)
    )


def build_bot_settings(folder: Path, directory: str, smtp_url: str, redis_url: str, model: str) -> dict[str, str]:
    """Where everything is for a bot that works for them, but for the chat. Its own files lie in the folder."""
    file = folder / "directory.toml"
    file.write_text(directory, encoding="utf-8")
    return {
        "OPENAI_BASE_URL": f"{model}/v1",
        "OPENAI_MODEL": "scripted",
        "REDIS_URL": redis_url,
        "SMTP_URL": smtp_url,
        "DIRECTORY_FILE": str(file),
        "DATA_DIR": str(folder),
    }


def build_chat_settings(address: str) -> dict[str, str]:
    """Where the local workspace is for a bot, and with what it is let in."""
    if CHAT == "feishu":
        return {"FEISHU_API_URL": address, "FEISHU_APP_ID": APP_ID, "FEISHU_APP_SECRET": SECRET}
    return {"SLACK_API_URL": f"{address}/api/", "SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}


@cache
def list_full_weeks(today: date) -> tuple[date, ...]:
    """The Mondays of weeks that are worked from end to end, some weeks from now on: leaves in them count the same
    number of days whenever this runs."""
    first = today + AHEAD + timedelta(days=-today.weekday() % 7)
    calendar, mondays = WorkCalendar(), (first + timedelta(weeks=n) for n in range(WEEKS))
    return tuple(day for day in mondays if all(calendar.get_day_status(day + timedelta(days=n))[0] for n in range(5)))


def read_payload(message: Json) -> Json:
    payload: Json = (message.get("metadata") or {}).get("event_payload", {})
    return payload


def read_key(message: Json) -> str:
    """What the bot calls a message of its own; empty for those of others."""
    return str(read_payload(message).get("key", ""))


def list_buttons(message: Json) -> Iterator[Json]:
    """The bot's own buttons on a message."""
    for block in message.get("blocks") or ():
        for one in block.get("elements", ()):
            if one.get("type") == "button" and str(one.get("action_id", "")).startswith("cs:"):
                yield one
