"""`FeishuMembers`: the people of a Feishu tenant.

A person's id is the open id, which Feishu gives for this app alone. The other ids (`user_id`, `union_id`) are not
kept."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from bot.chat.messages import ChatDirectory
from bot.core import logs
from bot.core.errors import ChatError, ChatRefusedError
from bot.people.member_cache import INVALID_CURSOR, Member, MemberFacts, MemberSource
from bot.people.member_store import MemberRecord
from bot.platforms.feishu.client import FeishuClient
from bot.platforms.feishu.message_content import is_person_id, is_short_text
from bot.platforms.shared import find_value, list_mappings
from tools.characters import clean_name

log = logs.get_logger(__name__)

PAGE, PAGES = "50", 400
"""Departments or people per page, the most that Feishu gives, and most pages of departments."""
ROOT = "0"
"""Id of the company as a department."""
UNKNOWN_CODES = frozenset({"41012", "41050", "99992351", "99992361"})
"""The id is nobody's, another app's, or of somebody outside of what the app may read."""
NAMES = ("name", "en_name", "nickname")
INACTIVE = ("is_frozen", "is_resigned", "is_exited", "is_unjoin")
"""Fields of a status that bar a person."""
OPEN_IDS = {"user_id_type": "open_id", "department_id_type": "open_department_id"}


class FeishuMembers(MemberSource):
    """Feishu's contacts, which are people and no bots. The list goes through all departments. Needs
    `contact:contact.base:readonly`, `contact:user.base:readonly`, `contact:user.email:readonly`,
    `contact:user.employee:readonly`, `contact:user.department:readonly` and `contact:department.base:readonly`."""

    def __init__(self, client: FeishuClient, *, locale: str = "zh-CN", timezone: str = "Asia/Shanghai") -> None:
        """`locale` and `timezone` are everybody's, because Feishu does not tell them."""
        self._client, self._locale, self._timezone = client, locale, timezone
        self._departments: dict[str, str] = {ROOT: ""}
        """Id → name."""
        self._order: list[str] = []
        """The departments in the order in which their people are read, the same in every process."""

    async def list_page(self, cursor: str) -> tuple[Mapping[str, Member], str]:
        """Read a page of one department. The cursor names the department and the page."""
        if not (cursor and self._order):
            listed = await self._list_departments()
            self._departments |= listed
            self._order = [ROOT, *sorted(listed.keys() - {ROOT})]
        department, _, page = cursor.partition(" ")
        department = department or ROOT
        if department not in self._order:
            raise ChatRefusedError(INVALID_CURSOR, "users/find_by_department")
        query = {**OPEN_IDS, "department_id": department, "page_size": PAGE} | ({"page_token": page} if page else {})
        answer = await self._client.call("GET", "contact/v3/users/find_by_department", query=query)
        users = {str(id): one for one in list_mappings(answer.get("items")) if is_person_id(id := one.get("open_id"))}
        if answer.get("has_more") is True:
            return users, f"{department} {answer.get('page_token')}"
        following = self._order[self._order.index(department) + 1 :]
        return users, f"{following[0]} " if following else ""

    async def _list_departments(self) -> dict[str, str]:
        found, query = dict[str, str](), {**OPEN_IDS, "fetch_child": "true", "page_size": PAGE}
        for _ in range(PAGES):
            answer = await self._client.call("GET", f"contact/v3/departments/{ROOT}/children", query=query)
            for one in list_mappings(answer.get("items")):
                found[str(one.get("open_department_id"))] = clean_name(one.get("name"))
            if answer.get("has_more") is not True:
                break
            query["page_token"] = str(answer.get("page_token"))
        return found

    async def find_member(self, person: str) -> Member | None:
        try:
            answer = await self._client.call("GET", f"contact/v3/users/{person}", query=OPEN_IDS)
        except ChatError as failed:
            if failed.code in UNKNOWN_CODES:
                return None
            raise
        user = answer.get("user")
        if not isinstance(user, Mapping) or user.get("open_id") != person:
            return None
        if (department := _choose_department(user)) not in ("", ROOT, *self._departments):
            told: object = None  # it is newer than the list; where Feishu does not tell it, the person has none
            with suppress(ChatRefusedError):
                told = await self._client.call("GET", f"contact/v3/departments/{department}", query=OPEN_IDS)
            self._departments[department] = clean_name(find_value(told, "department", "name"))
        return {"id": person, **user}

    async def find_member_by_email(self, email: str) -> Member | None:
        query, body = {"user_id_type": "open_id"}, {"emails": [email], "include_resigned": False}
        answer = await self._client.call("POST", "contact/v3/users/batch_get_id", query=query, body=body)
        ids = [one.get("user_id") for one in list_mappings(answer.get("user_list"))]
        return next(({"id": id} for id in ids if is_person_id(id)), None)

    def is_person_id(self, id: str) -> bool:
        return is_person_id(id)

    def cut_down_member(self, member: Member) -> dict[str, Any]:
        leader, flags = member.get("leader_user_id"), partial(find_value, member, "status")
        emails = [one.strip() for name in ("email", "enterprise_email") if is_short_text(one := member.get(name))]
        kept: dict[str, Any] = {name: clean_name(member.get(name)) for name in NAMES}
        kept |= {
            "email": emails[0] if emails else "",
            "title": clean_name(member.get("job_title")),
            "leader": leader if is_person_id(leader) else "",
            "department": self._departments.get(_choose_department(member), ""),
            "active": flags("is_activated") is True and not any(map(flags, INACTIVE)),
            "manages": member.get("is_tenant_manager") is True,
        }
        return {"id": str(member.get("open_id"))} | {name: value for name, value in kept.items() if value}

    def is_full_member(self, member: Member) -> bool:
        return bool(member.get("active"))

    def get_email(self, member: Member) -> str:
        return str(member.get("email") or "")

    def read_facts(self, record: MemberRecord) -> MemberFacts:
        member = record.member
        names = (member.get(name) for name in NAMES)
        return MemberFacts(
            names=tuple(dict.fromkeys(name for name in names if name)) or (str(member["id"]),),
            email=self.get_email(member),
            title=member.get("title") or "",
            locale=self._locale,
            timezone=self._timezone,
            runs_workspace=bool(member.get("manages")),
            manager=member.get("leader") or "",
            department=member.get("department") or "",
        )


def _choose_department(user: Member) -> str:
    """Return the id of a person's main department, or an empty text."""
    orders, ids = list_mappings(user.get("orders")), user.get("department_ids")
    main = [one.get("department_id") for one in orders if one.get("is_primary_dept") is True]
    return next((one for one in (*main, *(ids if isinstance(ids, list) else ())) if is_short_text(one)), "")


async def list_people_to_pick(directory: ChatDirectory) -> dict[str, str]:
    """List the members for a picker: open id → words that find the person. Return none if they cannot be listed."""
    try:
        return {one.id: one.email or one.name for one in await directory.list_people()}
    except ChatError as failed:
        log.info("nobody to pick", reason=str(failed))
        return {}
