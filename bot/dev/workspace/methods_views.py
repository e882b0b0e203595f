"""Web API: views.* and blocks.validate."""

from __future__ import annotations

from bot.dev.workspace import views
from bot.dev.workspace.arguments import MethodArguments
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.validate import check_blocks, check_view
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json


def read_trigger_id(args: MethodArguments) -> str:
    """Read the trigger id under either of its two names."""
    return args.read_text("trigger_id") or args.read_text("interactivity_pointer") or args.require_text("trigger_id")


def views_open(ws: Workspace, args: MethodArguments) -> Json:
    view = views.require_valid_view(args.read_json("view"), "modal")
    return {"view": views.open_view(ws, ws.triggers.use_trigger(read_trigger_id(args)), view)}


def views_push(ws: Workspace, args: MethodArguments) -> Json:
    view = views.require_valid_view(args.read_json("view"), "modal")
    return {"view": views.push_view(ws, ws.triggers.use_trigger(read_trigger_id(args)), view)}


def views_update(ws: Workspace, args: MethodArguments) -> Json:
    id, external = args.read_text("view_id"), args.read_text("external_id")
    return {"view": views.update_view(ws, id, external, args.read_json("view"), args.read_text("hash"))}


def views_publish(ws: Workspace, args: MethodArguments) -> Json:
    person = ws.get_person(args.require_text("user_id"))
    return {"view": views.publish_home(ws, person.id, args.read_json("view"), args.read_text("hash"))}


def blocks_validate(ws: Workspace, args: MethodArguments) -> Json:
    """Check exactly one of `blocks`, `message` or `view`. Raises `WorkspaceError` with the problems."""
    given = [name for name in ("blocks", "message", "view") if args.has_value(name)]
    if len(given) != 1:
        raise WorkspaceError("invalid_arguments", ["[ERROR] exactly one of blocks, message, view is required"])
    value = args.read_json(given[0])
    if given[0] == "view":
        problems = check_view(value)
    elif given[0] == "message":
        problems = check_blocks(value.get("blocks", []) if isinstance(value, dict) else value)
    else:
        problems = check_blocks(value)
    if problems:
        raise WorkspaceError("invalid_blocks", problems, errors=problems)
    return {}
