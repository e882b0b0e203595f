"""Dialogs and Home tabs: the stack of a person's open dialogs, and the app's changes to it."""

from __future__ import annotations

import secrets

from bot.dev.workspace.arguments import MethodArguments
from bot.dev.workspace.posting import fill_block_ids
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.validate import VIEW_BYTES, check_view, count_json_bytes
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json

MOST_STACKED = 3


def require_valid_view(view: object, kind: str) -> Json:
    """Return a valid view. Raises `WorkspaceError` as the platform does."""
    if not isinstance(view, dict):
        raise WorkspaceError("invalid_arguments", ["[ERROR] missing required field: view"])
    if problems := check_view(view):
        raise WorkspaceError("invalid_arguments", problems)
    if view["type"] != kind:
        raise WorkspaceError("invalid_arguments", [f"[ERROR] must be of type {kind} [json-pointer:/view/type]"])
    if count_json_bytes(view) > VIEW_BYTES:
        raise WorkspaceError("view_too_large")
    return view


def build_full_view(ws: Workspace, view: Json, id: str, root: str, previous: str | None) -> Json:
    """Build a view in its full form, with the fields that the platform adds."""
    return {
        "id": id,
        "team_id": ws.app.team,
        "type": view["type"],
        "blocks": fill_block_ids(view["blocks"]),
        "private_metadata": view.get("private_metadata", ""),
        "callback_id": view.get("callback_id", ""),
        "state": {"values": {}},
        "hash": f"{ws.create_timestamp()}.{secrets.token_hex(4)}",
        "title": view.get("title", {"type": "plain_text", "text": "View Title", "emoji": True}),
        "close": view.get("close"),
        "submit": view.get("submit"),
        "previous_view_id": previous,
        "root_view_id": root,
        "app_id": ws.app.app,
        "app_installed_team_id": ws.app.team,
        "bot_id": ws.app.bot,
    }


def push_view(ws: Workspace, person: str, view: Json) -> Json:
    """Put a dialog checked by `require_valid_view` on top of the open one."""
    if len(ws.state.stacks.get(person, [])) >= MOST_STACKED:
        raise WorkspaceError("push_limit_reached")
    return add_to_stack(ws, person, view)


def add_to_stack(ws: Workspace, person: str, view: Json) -> Json:
    open_ids = ws.state.stacks.setdefault(person, [])
    id = "V" + secrets.token_hex(5).upper()
    root, previous = (open_ids[0], open_ids[-1]) if open_ids else (id, None)
    ws.state.views[id] = build_full_view(ws, view, id, root, previous)
    open_ids.append(id)
    ws.notify_change("views", person=person)
    return ws.state.views[id]


def update_view(ws: Workspace, id: str, view: object, hash: str = "") -> Json:
    """Replace an open dialog's content."""
    known = ws.state.views.get(id)
    if known is None:
        raise WorkspaceError("not_found")
    if hash and hash != known["hash"]:
        raise WorkspaceError("hash_conflict")
    body = require_valid_view(view, "modal")
    ws.state.views[id] = build_full_view(ws, body, id, known["root_view_id"], known["previous_view_id"])
    owner = next((person for person, ids in ws.state.stacks.items() if id in ids), "")
    ws.notify_change("views", person=owner)
    return ws.state.views[id]


def find_top_view(ws: Workspace, person: str) -> Json | None:
    ids = ws.state.stacks.get(person)
    return ws.state.views[ids[-1]] if ids else None


def get_top_view(ws: Workspace, person: str, view_id: str) -> Json:
    """Return this dialog. Raises `WorkspaceError` if it is not the person's top one."""
    view = find_top_view(ws, person)
    if view is None or view["id"] != view_id:
        raise WorkspaceError("view_not_found")
    return view


def close_top_view(ws: Workspace, person: str) -> None:
    if ids := ws.state.stacks.get(person):
        forget_view(ws, ids.pop())
        ws.notify_change("views", person=person)


def close_all_views(ws: Workspace, person: str) -> None:
    for id in ws.state.stacks.pop(person, []):
        forget_view(ws, id)
    ws.notify_change("views", person=person)


def forget_view(ws: Workspace, id: str) -> None:
    ws.state.views.pop(id, None)
    ws.state.typed.pop(id, None)


def apply_response_action(ws: Workspace, person: str, view_id: str, body: Json) -> dict[str, str]:
    """Carry out the app's answer to a submitted dialog; return the problems by block_id if it stays open for
    correction."""
    action = body.get("response_action")
    if action == "errors":
        errors = body.get("errors")
        return {str(k): str(v) for k, v in errors.items()} if isinstance(errors, dict) else {}
    if action == "update":
        update_view(ws, view_id, body.get("view"))
    elif action == "push":
        push_view(ws, person, require_valid_view(body.get("view"), "modal"))
    elif action == "clear":
        close_all_views(ws, person)
    else:
        close_top_view(ws, person)
    return {}


# Web API: views.*


def views_open(ws: Workspace, args: MethodArguments) -> Json:
    """Open a dialog, in place of all dialogs that the person had open."""
    view = require_valid_view(args.read_json("view"), "modal")
    person = ws.triggers.use_trigger(args.require_text("trigger_id"))
    close_all_views(ws, person)
    return {"view": add_to_stack(ws, person, view)}


def views_push(ws: Workspace, args: MethodArguments) -> Json:
    view = require_valid_view(args.read_json("view"), "modal")
    return {"view": push_view(ws, ws.triggers.use_trigger(args.require_text("trigger_id")), view)}


def views_update(ws: Workspace, args: MethodArguments) -> Json:
    return {"view": update_view(ws, args.require_text("view_id"), args.read_json("view"), args.read_text("hash"))}


def views_publish(ws: Workspace, args: MethodArguments) -> Json:
    """Replace a person's Home tab."""
    person = ws.get_person(args.require_text("user_id")).id
    body, hash = require_valid_view(args.read_json("view"), "home"), args.read_text("hash")
    known = ws.state.homes.get(person)
    if hash and known and hash != known["hash"]:
        raise WorkspaceError("hash_conflict")
    id = known["id"] if known else "V" + secrets.token_hex(5).upper()
    ws.state.homes[person] = build_full_view(ws, body, id, id, None)
    ws.notify_change("home", person=person)
    return {"view": ws.state.homes[person]}
