"""Messages to the rehearsal model."""

from datetime import datetime
from typing import Any

from bot.agent.prompt import build_now_message
from tools.spec import Caller, Person
from tools.workflow.process.calendar import WorkCalendar


def system(language: str = "zh") -> dict[str, Any]:
    person = Person(id="U01ZHANG", name="张三", locale=language, timezone="Asia/Shanghai")
    now = datetime(2026, 11, 20, 9, tzinfo=person.zone)
    return build_now_message(Caller(person), now, WorkCalendar(), direct=True)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": f'<message from="张三">\n{text}\n</message>'}
