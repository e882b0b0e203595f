"""Web API methods about people and rooms: auth.test, users.*, conversations.*."""

from __future__ import annotations

from bot.dev.workspace.arguments import MethodArguments
from bot.dev.workspace.methods_chat import slice_cursor_page
from bot.dev.workspace.payloads import SLACKBOT, build_channel_object, build_user_object
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json, WorkspaceMember


def auth_test(ws: Workspace, args: MethodArguments) -> Json:
    app = ws.app
    return {
        "url": f"{ws.address}/",
        "team": app.team_name,
        "user": app.name,
        "team_id": app.team,
        "user_id": app.user,
        "bot_id": app.bot,
        "is_enterprise_install": False,
    }


def build_visible_user(ws: Workspace, person: WorkspaceMember, args: MethodArguments) -> Json:
    email = "users:read.email" in ws.setup.scopes
    return build_user_object(ws.app, person, locale=args.read_flag("include_locale"), email=email)


def find_user(ws: Workspace, id: str) -> WorkspaceMember:
    """Return a member, who may be the bot or somebody who has left. Raises `WorkspaceError`."""
    if id not in ws.state.people:
        raise WorkspaceError("user_not_found")
    return ws.state.people[id]


def users_info(ws: Workspace, args: MethodArguments) -> Json:
    return {"user": build_visible_user(ws, find_user(ws, args.require_text("user")), args)}


def users_list(ws: Workspace, args: MethodArguments) -> Json:
    chosen, following = slice_cursor_page([SLACKBOT, *ws.state.people.values()], args, 1000)
    return {"members": [build_visible_user(ws, person, args) for person in chosen], **following}


def users_lookup_by_email(ws: Workspace, args: MethodArguments) -> Json:
    wanted = args.require_text("email").lower()
    for person in ws.state.people.values():
        if person.email.lower() == wanted and not person.deleted:
            return {"user": build_visible_user(ws, person, args)}
    raise WorkspaceError("users_not_found")


def users_profile_get(ws: Workspace, args: MethodArguments) -> Json:
    person = find_user(ws, args.require_text("user"))
    profile = build_visible_user(ws, person, args)["profile"]
    return {"profile": {**profile, "fields": {id: {"value": said, "alt": ""} for id, said in person.fields.items()}}}


def team_profile_get(ws: Workspace, args: MethodArguments) -> Json:
    return {"profile": {"fields": [{**field, "options": {"is_protected": True}} for field in ws.world.profile]}}


def conversations_open(ws: Workspace, args: MethodArguments) -> Json:
    users = args.require_text("users").strip("[]").replace('"', "").split(",")
    if len(users) != 1:
        raise WorkspaceError("invalid_user_combination")
    person = find_user(ws, users[0].strip())
    if person.is_bot:
        raise WorkspaceError("cannot_dm_bot")
    room = ws.get_room(person.dm_id, ws.app.user)
    return {"channel": {"id": room.id}}


def conversations_info(ws: Workspace, args: MethodArguments) -> Json:
    room = ws.state.rooms.get(args.require_text("channel"))
    if room is None or (room.kind != "channel" and ws.app.user not in room.members):
        raise WorkspaceError("channel_not_found")
    return {"channel": build_channel_object(ws.app, room)}


def users_conversations(ws: Workspace, args: MethodArguments) -> Json:
    """List the rooms of a person; without `user`, those of the app itself."""
    types = {kind.strip() for kind in (args.read_text("types") or "public_channel").split(",")}
    kinds = {"im": "im", "mpim": "mpim", "public_channel": "channel", "private_channel": "group"}
    wanted = {kinds[kind] for kind in types if kind in kinds}
    inside = {ws.app.user, args.read_text("user") or ws.app.user}
    rooms = [room for room in ws.state.rooms.values() if room.kind in wanted and inside <= {*room.members}]
    chosen, following = slice_cursor_page(rooms, args, 100)
    return {"channels": [build_channel_object(ws.app, room) for room in chosen], **following}


def conversations_members(ws: Workspace, args: MethodArguments) -> Json:
    room = ws.get_room(args.require_text("channel"), ws.app.user)
    members, following = slice_cursor_page(room.members, args, 100)
    return {"members": members, **following}
