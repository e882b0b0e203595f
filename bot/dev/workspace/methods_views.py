"""Web API: views.*."""

from __future__ import annotations

from bot.dev.workspace import views
from bot.dev.workspace.arguments import MethodArguments
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json


def views_open(ws: Workspace, args: MethodArguments) -> Json:
    view = views.require_valid_view(args.read_json("view"), "modal")
    return {"view": views.open_view(ws, ws.triggers.use_trigger(args.require_text("trigger_id")), view)}


def views_push(ws: Workspace, args: MethodArguments) -> Json:
    view = views.require_valid_view(args.read_json("view"), "modal")
    return {"view": views.push_view(ws, ws.triggers.use_trigger(args.require_text("trigger_id")), view)}


def views_update(ws: Workspace, args: MethodArguments) -> Json:
    id = args.require_text("view_id")
    return {"view": views.update_view(ws, id, args.read_json("view"), args.read_text("hash"))}


def views_publish(ws: Workspace, args: MethodArguments) -> Json:
    person = ws.get_person(args.require_text("user_id"))
    return {"view": views.publish_home(ws, person.id, args.read_json("view"), args.read_text("hash"))}
