"""Feishu's endpoints about people, departments, rooms and the app itself."""

from __future__ import annotations

import hashlib

from bot.dev.workspace.feishu.messages import build_ids
from bot.dev.workspace.feishu.methods import OpenApiCall, find_room
from bot.dev.workspace.feishu.refused import FeishuError
from bot.dev.workspace.feishu.workspace import TOKEN_S, FeishuWorkspace
from bot.dev.workspace.world import Json, WorkspaceMember, WorkspaceRoom

ROOT = "0"
MOST_EMAILS = 50


def get_tenant_token(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    if (call.body.get("app_id"), call.body.get("app_secret")) != (ws.setup.app_id, ws.setup.app_secret):
        raise FeishuError(10014, status=200)
    return {"tenant_access_token": ws.create_token(), "expire": int(TOKEN_S)}


def get_bot_info(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    return {"bot": {"activate_status": 2, "app_name": ws.app.real_name, "open_id": ws.app.user}}


def query_tenant(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    return {"tenant": {"name": ws.app.team_name, "tenant_key": ws.app.team}}


def list_scopes(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    return {
        "scopes": [{"scope_name": name, "grant_status": 1, "scope_type": "tenant"} for name in sorted(ws.setup.scopes)]
    }


def get_department(member: WorkspaceMember, ws: FeishuWorkspace) -> str:
    """Return the name of a person's department; empty for the root."""
    field = next((one["id"] for one in ws.world.profile if one["type"] == "text"), "")
    return str(member.fields.get(field, ""))


def build_department_id(name: str) -> str:
    return f"od-{hashlib.sha256(name.encode()).hexdigest()[:32]}" if name else ROOT


def describe_person(ws: FeishuWorkspace, member: WorkspaceMember) -> Json:
    """Describe a person. A field without its scope is left out, which is no error."""
    scopes = ws.setup.scopes
    leader = next((one["id"] for one in ws.world.profile if one["type"] == "user"), "")
    row: Json = {name: id for name, id in build_ids(ws, member.id).items() if id}
    if "contact:user.base:readonly" in scopes:
        row |= {"name": member.real_name, "en_name": member.display_name, "nickname": member.name}
    if "contact:user.email:readonly" in scopes:
        row |= {"email": member.email, "enterprise_email": ""}
    if "contact:user.employee:readonly" in scopes:
        row |= {"job_title": member.title, "is_tenant_manager": member.is_admin}
        row["status"] = {
            "is_frozen": False,
            "is_resigned": member.deleted,
            "is_activated": True,
            "is_exited": False,
            "is_unjoin": False,
        }
    if "contact:user.department:readonly" in scopes:
        row |= {"department_ids": [build_department_id(get_department(member, ws))]}
        row["leader_user_id"] = str(member.fields.get(leader, ""))
    return row


def list_humans(ws: FeishuWorkspace) -> list[WorkspaceMember]:
    return [person for person in ws.state.people.values() if not person.is_bot]


def get_user(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    person = ws.state.people.get(call.ids["user_id"])
    if call.query.get("user_id_type", "open_id") != "open_id" or person is None or person.is_bot:
        raise FeishuError(41012)
    return {"user": describe_person(ws, person)}


def find_by_department(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    wanted = call.query.get("department_id")
    rows = [
        describe_person(ws, one)
        for one in list_humans(ws)
        if build_department_id(get_department(one, ws)) == wanted and not one.deleted
    ]
    return call.build_page(rows)


def batch_get_id(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    emails = call.body.get("emails") or []
    if len(emails) > MOST_EMAILS:
        raise FeishuError(99992402, ": emails")
    known = {one.email: one for one in list_humans(ws) if not one.deleted or call.body.get("include_resigned")}
    return {"user_list": [{"email": one, **({"user_id": known[one].id} if one in known else {})} for one in emails]}


def describe_department(name: str) -> Json:
    id = build_department_id(name)
    return {"name": name, "open_department_id": id, "department_id": id}


def list_departments(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    names = sorted({get_department(one, ws) for one in list_humans(ws)} - {""})
    under_root = call.ids["department_id"] == ROOT
    return call.build_page([describe_department(name) for name in names] if under_root else [])


def get_department_by_id(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    for one in list_humans(ws):
        name = get_department(one, ws)
        if build_department_id(name) == call.ids["department_id"]:
            return {"department": describe_department(name or ws.app.team_name)}
    raise FeishuError(43008)


def describe_room(ws: FeishuWorkspace, room: WorkspaceRoom) -> Json:
    p2p = room.kind == "im"
    return {
        "chat_id": room.id,
        "name": "" if p2p else room.name,
        "chat_mode": "p2p" if p2p else "group",
        "chat_type": "private" if room.kind != "channel" else "public",
        "external": False,
        "tenant_key": ws.app.team,
    }


def get_chat(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    return describe_room(ws, find_room(ws, call.ids["chat_id"]))


def list_members(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    """List the people of a group; bots are not among them."""
    room = find_room(ws, call.ids["chat_id"])
    people = [ws.state.people[id] for id in room.members if id != ws.app.user]
    row = {"member_id_type": "open_id", "tenant_key": ws.app.team}
    return call.build_page([{**row, "member_id": one.id, "name": one.real_name} for one in people])


def find_p2p_chats(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    (wanted,) = call.require("chatter_ids")
    found = [ws.state.people[id] for id in wanted if id in ws.state.people]
    return {"p2p_chats": [{"chatter_id": one.id, "chat_id": one.dm_id} for one in found]}
