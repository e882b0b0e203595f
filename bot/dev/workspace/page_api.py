"""The page's own API: `/`, `/page/*` and `/local/*`, in JSON, for one person at a time, from this machine only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from aiohttp import web
from aiohttp.typedefs import Handler

from bot.core.i18n import load_sentences, translate
from bot.dev.workspace import methods_files, views
from bot.dev.workspace.acts import ActResult, WorkspaceActs, mark_read
from bot.dev.workspace.arguments import MethodArguments, read_json_body
from bot.dev.workspace.feed import PageFeed
from bot.dev.workspace.guard import HEADERS, build_file_response, require_own_page
from bot.dev.workspace.payloads import drop_metadata
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json, WorkspaceMember, WorkspaceRoom
from tools.languages import LANGUAGES
from tools.people.names import choose_name

PAGE = Path(__file__).parent / "page"
Act: TypeAlias = Callable[[Any, MethodArguments], Awaitable[Json]]
Look: TypeAlias = Callable[["PageApi", WorkspaceMember, web.Request], Json]


class PageApi:
    """Serves the page of a workspace. `acts`: what the page can ask `hands` to do, by name."""

    def __init__(self, hands: WorkspaceActs, acts: Mapping[str, Act]) -> None:
        self.ws, self.hands, self.acts = hands.ws, hands, acts

    def build_routes(self) -> list[web.RouteDef]:
        """Build the routes. Each of them is for our own page alone."""
        looks: dict[str, Handler] = {
            "/": self.serve_page_file,
            "/page/{file:.+}": self.serve_page_file,
            "/local/feed": self.serve_feed,
            "/local/texts": self.serve_texts,
            "/local/file/{id}": self.serve_file,
            "/local/{what}": self.serve_look,
        }
        acts: dict[str, Handler] = {"/local/upload": self.receive_file, "/local/{what}": self.handle_act}
        return [
            *(web.get(path, guard_handler(serve)) for path, serve in looks.items()),
            *(web.post(path, guard_handler(serve)) for path, serve in acts.items()),
        ]

    async def serve_page_file(self, request: web.Request) -> web.Response:
        return build_file_response(PAGE, request.match_info.get("file", "index.html"))

    async def serve_texts(self, request: web.Request) -> web.Response:
        """Serve every text of the page by key, in the language `?lang=`."""
        lang = request.query.get("lang", "zh")
        if lang not in LANGUAGES:
            raise WorkspaceError("unknown_language")
        return build_json_response(
            {
                f"{key}.one" if form.endswith("_one") else key: text
                for key, words in load_sentences().items()
                for form, text in words.items()
                if key.startswith("page.") and form.startswith(lang)
            }
        )

    async def serve_look(self, request: web.Request) -> web.Response:
        if (look := LOOKS.get(request.match_info["what"])) is None:
            raise WorkspaceError("unknown")
        return build_json_response(look(self, self.get_viewer(request), request))

    async def serve_file(self, request: web.Request) -> web.Response:
        """Serve a file to a person (`?person=`) in whose room it was shared. A file that is no picture is only saved,
        never shown as a page of ours."""
        file = methods_files.get_shared_file(self.ws, request.match_info["id"], self.get_viewer(request).id)
        kind = methods_files.detect_mime_type(file)
        saved = {"Content-Disposition": "attachment"} if kind == methods_files.OTHER else {}
        return web.Response(body=file.content or b"", content_type=kind, headers={**HEADERS, **saved})

    async def receive_file(self, request: web.Request) -> web.Response:
        """Take the bytes of a file that a person has chosen (`?person=&name=`); answer with its id."""
        person, name = self.get_viewer(request), request.query.get("name", "")
        file = methods_files.upload_file(self.ws, person.id, name, await request.read())
        return build_json_response({"ok": True, "id": file.id, "name": file.name, "size": file.length})

    async def handle_act(self, request: web.Request) -> web.Response:
        if (act := self.acts.get(request.match_info["what"])) is None:
            raise WorkspaceError("unknown")
        args = MethodArguments({})
        try:
            args = MethodArguments(await read_json_body(request))
            return build_json_response({"ok": True, **await act(self, args)})
        except WorkspaceError as refused:
            return build_json_response({**refused.to_body(), **self.describe_error(args, refused.error)})

    async def serve_feed(self, request: web.Request) -> web.StreamResponse:
        try:
            return await PageFeed(self.ws, self.get_viewer(request).id).serve_socket(request)
        except ConnectionResetError:  # the page went away while its feed was opened
            return web.Response()

    def get_viewer(self, request: web.Request) -> WorkspaceMember:
        """Return the person that the page shows; the first one if the page names none."""
        wanted = request.query.get("person")
        return self.ws.get_person(wanted) if wanted else next(p for p in self.ws.state.people.values() if not p.is_bot)

    def describe_error(self, args: MethodArguments, error: str) -> Json:
        """Return `message` with the error in the person's language, if there is a text for it."""
        key = f"workspace.{error}"
        return {"message": translate(key, self.choose_language(args))} if key in load_sentences() else {}

    def describe_result(self, args: MethodArguments, done: ActResult) -> Json:
        """Return by field what is wrong with it, in the person's language, or the app's words. Raises `WorkspaceError`
        for any other failure."""
        if done.error == "invalid_input":
            language = self.choose_language(args)
            return {"errors": {name: translate(f"workspace.{what}", language) for name, what in done.errors.items()}}
        return {"errors": dict(done.errors)} if done.errors else require_success(done)

    def choose_language(self, args: MethodArguments) -> str:
        person = self.ws.state.people.get(args.read_text("person"))
        return person.person.language if person else "zh"


def guard_handler(serve: Handler) -> Handler:
    """Build a handler that serves our own page alone, and answers a refusal with its error."""

    async def serve_own_page(request: web.Request) -> web.StreamResponse:
        require_own_page(request)
        try:
            return await serve(request)
        except WorkspaceError as refused:
            return build_json_response(refused.to_body(), 404 if request.method == "GET" else 400)

    return serve_own_page


def build_json_response(body: Json, status: int = 200) -> web.Response:
    return web.json_response(body, status=status, headers=HEADERS)


def build_person_row(person: WorkspaceMember, language: str) -> Json:
    """Return a person as readers of a language meet them."""
    display = choose_name(person.person, language)
    return {
        "id": person.id,
        "name": person.name,
        "display": display,
        "also": person.display_name if display == person.real_name else person.real_name,
        "title": person.title,
        "locale": person.locale,
        "tz": person.tz,
        "email": person.email,
        "is_bot": person.is_bot,
    }


def choose_room_name(ws: Workspace, room: WorkspaceRoom, me: WorkspaceMember) -> str:
    """Return the page's name for a room; a DM is named after the other person."""
    if room.kind not in ("im", "mpim"):
        return room.name
    others = [choose_name(ws.state.people[id].person, me.person.language) for id in room.members if id != me.id]
    return others[-1] if room.kind == "im" else ", ".join(others)


def build_page_state(api: PageApi, me: WorkspaceMember, request: web.Request) -> Json:
    ws = api.ws
    channels = [
        {"id": r.id, "name": choose_room_name(ws, r, me), "kind": r.kind, "unread": ws.state.count_unread(me.id, r)}
        for r in ws.state.rooms.values()
        if me.id in r.members
    ]
    return {
        "team": {"id": ws.app.team, "name": ws.app.team_name},
        "bot": {"id": ws.app.user, "name": ws.app.real_name},
        "untouched": not any(room.messages for room in ws.state.rooms.values()),
        "me": build_person_row(me, me.person.language),
        "people": [build_person_row(person, me.person.language) for person in ws.state.people.values()],
        "channels": channels,
        "standins": [{"name": name, "note": note} for name, note in ws.standins.items()],
        "models": [{"key": one.sentence, "name": one.name, "command": one.command} for one in ws.models],
        "commands": list(ws.setup.commands),
        "shortcuts": [asdict(one) for one in ws.setup.shortcuts],
        "platform": ws.setup.platform,
        "menu": [{"key": key, "name": name} for key, name in ws.setup.menu],
    }


def build_page_messages(api: PageApi, me: WorkspaceMember, request: web.Request) -> Json:
    ws = api.ws
    room = ws.get_room(request.query.get("channel", ""), me.id)
    return {
        "messages": [drop_metadata(message) for message in room.messages.values()],
        "private": [notice for notice in ws.state.private.get(me.id, []) if notice["channel"] == room.id],
        "status": [
            {"thread_ts": thread, "status": words}
            for (channel, thread), words in ws.state.statuses.items()
            if channel == room.id
        ],
        "sessions": [
            {"thread_ts": thread, **session}
            for (channel, thread), session in ws.state.sessions.items()
            if channel == room.id
        ],
        "prompts": ws.state.prompts.get(room.id, []),
    }


LOOKS: dict[str, Look] = {
    "state": build_page_state,
    "messages": build_page_messages,
    "views": lambda api, me, request: {"view": views.find_top_view(api.ws, me.id)},
    "home": lambda api, me, request: {"view": api.ws.state.homes.get(me.id)},
    "mail": lambda api, me, request: {"mails": list(api.ws.mailbox.mails) if api.ws.mailbox else []},
}


def read_place(args: MethodArguments, *names: str) -> tuple[str, ...]:
    """Return the person who acts, and these arguments, which must be given."""
    return tuple(args.require_text(name) for name in ("person", *names))


async def act_say(api: PageApi, args: MethodArguments) -> Json:
    thread, files = args.read_text("thread_ts") or None, args.read_json("files") or []
    if not isinstance(files, list):
        raise WorkspaceError("invalid_arguments")
    person, channel = read_place(args, "channel")
    ids = [str(id) for id in files]
    return {"ts": await api.hands.send_message(person, channel, args.read_text("text"), thread, files=ids)}


async def act_click(api: PageApi, args: MethodArguments) -> Json:
    """Press a button of a message (`channel`, `ts`), or of a dialog or the Home tab (`view_id`)."""
    person, action = args.require_text("person"), args.require_text("action_id")
    block, value = args.read_text("block_id") or None, args.values.get("value")
    if args.has_value("view_id"):
        values = args.values.get("values")
        if values is not None and not isinstance(values, dict):
            raise WorkspaceError("invalid_arguments")
        view = args.read_text("view_id")
        done = await api.hands.click_view_button(person, view, action, block_id=block, value=value, values=values)
    else:
        where = (args.require_text("channel"), args.require_text("ts"))
        done = await api.hands.click_button(person, *where, action, block_id=block, value=value)
    return require_success(done)


async def act_submit(api: PageApi, args: MethodArguments) -> Json:
    values = args.read_json("values")
    if not isinstance(values, dict):
        raise WorkspaceError("invalid_arguments")
    person, view = read_place(args, "view_id")
    return api.describe_result(args, await api.hands.submit_view(person, view, values))


async def act_read(api: PageApi, args: MethodArguments) -> Json:
    mark_read(api.ws, *read_place(args, "channel"))
    return {}


def build_plain_act(method: str, *names: str, optional: tuple[str, ...] = ()) -> Act:
    """Build an act from the method of the hands that does it, and the arguments that it takes besides the person."""

    async def act(api: PageApi, args: MethodArguments) -> Json:
        done = await getattr(api.hands, method)(*read_place(args, *names), *map(args.read_text, optional))
        return require_success(done) if isinstance(done, ActResult) else {}

    return act


def require_success(done: ActResult) -> Json:
    if not done.ok:
        raise WorkspaceError(done.error)
    return {}


ACTS: dict[str, Act] = {
    "say": act_say,
    "click": act_click,
    "submit": act_submit,
    "close": build_plain_act("close_view", "view_id"),
    "slash": build_plain_act("run_slash_command", "channel", "command", optional=("text",)),
    "shortcut": build_plain_act("use_shortcut", "callback_id", optional=("channel", "ts")),
    "home": build_plain_act("open_home"),
    "open": build_plain_act("open_messages"),
    "stop": build_plain_act("stop_session", "channel", "thread_ts"),
    "read": act_read,
    "locale": build_plain_act("set_locale", "locale"),
}
