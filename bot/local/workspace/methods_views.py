"""Web API: views.* and blocks.validate."""

from __future__ import annotations

from bot.local.workspace import views
from bot.local.workspace.arguments import Args
from bot.local.workspace.refused import Refused
from bot.local.workspace.validate import block_problems, view_problems
from bot.local.workspace.workspace import Workspace
from bot.local.workspace.world import Json


def trigger(args: Args) -> str:
    """The trigger id, as either of the two names it goes by."""
    return args.text("trigger_id") or args.text("interactivity_pointer") or args.need("trigger_id")


def views_open(ws: Workspace, args: Args) -> Json:
    view = views.checked(args.json("view"), "modal")
    return {"view": views.open_view(ws, ws.triggers.use(trigger(args)), view)}


def views_push(ws: Workspace, args: Args) -> Json:
    view = views.checked(args.json("view"), "modal")
    return {"view": views.push_view(ws, ws.triggers.use(trigger(args)), view)}


def views_update(ws: Workspace, args: Args) -> Json:
    id, external = args.text("view_id"), args.text("external_id")
    return {"view": views.update_view(ws, id, external, args.json("view"), args.text("hash"))}


def views_publish(ws: Workspace, args: Args) -> Json:
    person = ws.person(args.need("user_id"))
    return {"view": views.publish_home(ws, person.id, args.json("view"), args.text("hash"))}


def blocks_validate(ws: Workspace, args: Args) -> Json:
    """Says what is wrong with exactly one of `blocks`, `message` or `view`."""
    given = [name for name in ("blocks", "message", "view") if args.has(name)]
    if len(given) != 1:
        raise Refused("invalid_arguments", ["[ERROR] exactly one of blocks, message, view is required"])
    value = args.json(given[0])
    if given[0] == "view":
        problems = view_problems(value)
    elif given[0] == "message":
        problems = block_problems(value.get("blocks", []) if isinstance(value, dict) else value)
    else:
        problems = block_problems(value)
    if problems:
        raise Refused("invalid_blocks", problems, errors=problems)
    return {}
