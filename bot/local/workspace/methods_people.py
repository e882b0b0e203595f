"""Web API: who there is and where: auth.test, users.*, conversations.*, team.info, bots.info."""

from __future__ import annotations

from typing import TypeVar

from bot.local.workspace.arguments import Args
from bot.local.workspace.methods_chat import offset
from bot.local.workspace.payloads import SLACKBOT, channel_object, user_object
from bot.local.workspace.refused import Refused
from bot.local.workspace.workspace import Workspace
from bot.local.workspace.world import Json, Person

T = TypeVar("T")


def auth_test(ws: Workspace, args: Args) -> Json:
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


def team_info(ws: Workspace, args: Args) -> Json:
    app = ws.app
    return {"team": {"id": app.team, "name": app.team_name, "domain": app.domain, "email_domain": "", "icon": {}}}


def bots_info(ws: Workspace, args: Args) -> Json:
    app = ws.app
    if args.has("bot") and args.text("bot") != app.bot:
        raise Refused("bot_not_found")
    bot = {"id": app.bot, "deleted": False, "name": app.name, "updated": 1, "app_id": app.app, "user_id": app.user}
    return {"bot": {**bot, "icons": {}}}


def page(rows: list[T], args: Args, usual: int) -> tuple[list[T], Json]:
    """The rows that `limit` (`usual` unless given) and `cursor` ask for, and where the next ones are."""
    start, limit = offset(args.text("cursor")), args.number("limit", usual, 1000)
    more = f"next:{start + limit}" if rows[start + limit :] else ""
    return rows[start : start + limit], {"response_metadata": {"next_cursor": more}}


def described(ws: Workspace, person: Person, args: Args) -> Json:
    email = "users:read.email" in ws.setup.scopes
    return user_object(ws.app, person, locale=args.flag("include_locale"), email=email)


def users_info(ws: Workspace, args: Args) -> Json:
    person = ws.state.people.get(args.need("user"))
    if person is None:
        raise Refused("user_not_found")
    return {"user": described(ws, person, args)}


def users_list(ws: Workspace, args: Args) -> Json:
    people = [SLACKBOT, *ws.state.people.values()]
    chosen, following = page(people, args, 1000)
    return {"members": [described(ws, person, args) for person in chosen], "cache_ts": int(ws.clock()), **following}


def lookup_by_email(ws: Workspace, args: Args) -> Json:
    wanted = args.need("email").lower()
    for person in ws.state.people.values():
        if person.email.lower() == wanted and not person.deleted:
            return {"user": described(ws, person, args)}
    raise Refused("users_not_found")


def profile_get(ws: Workspace, args: Args) -> Json:
    person = ws.state.people.get(args.need("user"))
    if person is None:
        raise Refused("user_not_found")
    profile = described(ws, person, args)["profile"]
    return {"profile": {**profile, "fields": {id: {"value": said, "alt": ""} for id, said in person.fields.items()}}}


def team_profile(ws: Workspace, args: Args) -> Json:
    fixed = {"hint": "", "possible_values": None, "is_hidden": False, "options": {"is_protected": True}}
    return {"profile": {"fields": [{**field, **fixed, "ordering": n} for n, field in enumerate(ws.world.profile)]}}


def conversations_open(ws: Workspace, args: Args) -> Json:
    if args.text("channel"):
        room = ws.room_with(args.text("channel"), ws.app.user)
        return {"channel": {"id": room.id}, "no_op": True, "already_open": True}
    users = args.need("users").strip("[]").replace('"', "").split(",")
    if len(users) != 1:
        raise Refused("invalid_user_combination")
    person = ws.state.people.get(users[0].strip())
    if person is None:
        raise Refused("user_not_found")
    if person.is_bot:
        raise Refused("cannot_dm_bot")
    room = ws.room_with(person.direct, ws.app.user)
    channel = channel_object(ws.app, room) if args.flag("return_im") else {"id": room.id}
    return {"channel": channel, "no_op": True, "already_open": True}


def conversations_info(ws: Workspace, args: Args) -> Json:
    room = ws.state.rooms.get(args.need("channel"))
    if room is None or (room.kind == "im" and ws.app.user not in room.members):
        raise Refused("channel_not_found")
    return {"channel": channel_object(ws.app, room)}


def conversations_list(ws: Workspace, args: Args) -> Json:
    types = {kind.strip() for kind in (args.text("types") or "public_channel").split(",")}
    kinds = {"im": "im", "public_channel": "channel"}
    wanted = {kinds[kind] for kind in types if kind in kinds}
    rooms = [room for room in ws.state.rooms.values() if room.kind in wanted]
    chosen, following = page(rooms, args, 100)
    return {"channels": [channel_object(ws.app, room) for room in chosen], **following}


def conversations_members(ws: Workspace, args: Args) -> Json:
    room = ws.room_with(args.need("channel"), ws.app.user)
    members, following = page(room.members, args, 100)
    return {"members": members, **following}
