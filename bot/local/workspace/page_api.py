"""The page's own API: `/`, `/page/*` and `/local/*`. JSON, for one person at a time, from this machine only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

from aiohttp import web

from bot.local.workspace import acts, methods_files, views
from bot.local.workspace.arguments import Args, read_json
from bot.local.workspace.feed import Feed
from bot.local.workspace.guard import HEADERS, check, page_file
from bot.local.workspace.payloads import bare
from bot.local.workspace.refused import Refused
from bot.local.workspace.workspace import Workspace
from bot.local.workspace.world import Json, Person
from bot.texts import LANGUAGES, say, sentences

PAGE = Path(__file__).parent / "page"
Act: TypeAlias = Callable[["PageApi", Args], Awaitable[Json]]
Look: TypeAlias = Callable[["PageApi", Person, web.Request], Json]


class PageApi:
    """Serves the page."""

    def __init__(self, workspace: Workspace) -> None:
        self.ws = workspace

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self.index),
            web.get("/page/{file:.+}", self.static),
            web.get("/local/feed", self.feed),
            web.get("/local/texts", self.texts),
            web.get("/local/file/{id}", self.file),
            web.get("/local/{what}", self.look),
            web.post("/local/{what}", self.act),
        ]

    async def index(self, request: web.Request) -> web.Response:
        check(request)
        return page_file(PAGE, "index.html")

    async def static(self, request: web.Request) -> web.Response:
        check(request)
        return page_file(PAGE, request.match_info["file"])

    async def texts(self, request: web.Request) -> web.Response:
        """`?lang=`: every text of the page, by key."""
        check(request)
        lang = request.query.get("lang", "zh")
        if lang not in LANGUAGES:
            return answered({"ok": False, "error": "unknown_language"}, 400)
        return answered({key: words[lang] for key, words in sentences().items() if key.startswith("page.")})

    async def look(self, request: web.Request) -> web.Response:
        check(request)
        look = LOOKS.get(request.match_info["what"])
        if look is None:
            return answered({"ok": False, "error": "unknown"}, 404)
        try:
            return answered(look(self, self.viewer(request), request))
        except Refused as refused:
            return answered(refused.body(), 404)

    async def file(self, request: web.Request) -> web.Response:
        """`?person=`: a picture that was shared where they are."""
        check(request)
        try:
            file = methods_files.picture(self.ws, request.match_info["id"], self.viewer(request).id)
        except Refused as refused:
            return answered(refused.body(), 404)
        return web.Response(body=file.content, content_type=methods_files.kind(file), headers=HEADERS)

    async def act(self, request: web.Request) -> web.Response:
        check(request)
        act = ACTS.get(request.match_info["what"])
        if act is None:
            return answered({"ok": False, "error": "unknown"}, 404)
        args = Args({})
        try:
            args = Args(await read_json(request))
            return answered({"ok": True, **await act(self, args)})
        except Refused as refused:
            return answered({**refused.body(), **self.in_words(args, refused.error)})

    async def feed(self, request: web.Request) -> web.StreamResponse:
        check(request)
        try:
            person = self.viewer(request).id
        except Refused as refused:
            return answered(refused.body(), 404)
        return await Feed(self.ws, person).serve(request)

    def viewer(self, request: web.Request) -> Person:
        """The person the page shows; the first one when it does not say."""
        wanted = request.query.get("person")
        return self.ws.person(wanted) if wanted else next(p for p in self.ws.state.people.values() if not p.is_bot)

    def in_words(self, args: Args, error: str) -> Json:
        """`message`: the error in the person's language, where there are words for it."""
        key = f"workspace.{error}"
        return {"message": say(key, self.language(args))} if key in sentences() else {}

    def language(self, args: Args) -> str:
        person = self.ws.state.people.get(args.text("person"))
        return "en" if person and not person.locale.startswith("zh") else "zh"


def answered(body: Json, status: int = 200) -> web.Response:
    return web.json_response(body, status=status, headers=HEADERS)


def person_line(person: Person) -> Json:
    return {
        "id": person.id,
        "name": person.name,
        "display": person.real_name,
        "also": person.display_name,
        "title": person.title,
        "locale": person.locale,
        "tz": person.tz,
        "email": person.email,
        "is_bot": person.is_bot,
    }


def state(api: PageApi, me: Person, request: web.Request) -> Json:
    ws = api.ws
    name = {"im": ws.app.real_name}
    channels = [
        {"id": r.id, "name": name.get(r.kind, r.name), "kind": r.kind, "unread": ws.state.unread(me.id, r)}
        for r in ws.state.rooms_of(me.id)
    ]
    return {
        "team": {"id": ws.app.team, "name": ws.app.team_name},
        "bot": {"id": ws.app.user, "name": ws.app.real_name},
        "me": person_line(me),
        "people": [person_line(person) for person in ws.state.people.values()],
        "channels": channels,
        "standins": [asdict(standin) for standin in ws.standins],
        "commands": list(ws.setup.commands),
    }


def messages(api: PageApi, me: Person, request: web.Request) -> Json:
    ws = api.ws
    room = ws.room_with(request.query.get("channel", ""), me.id)
    return {
        "messages": [bare(message) for message in room.messages.values()],
        "private": [notice for notice in ws.state.private.get(me.id, []) if notice["channel"] == room.id],
        "status": [
            {"thread_ts": thread, "status": words}
            for (channel, thread), words in ws.state.statuses.items()
            if channel == room.id
        ],
    }


def mails(api: PageApi, me: Person, request: web.Request) -> Json:
    return {"mails": list(api.ws.mailbox.mails) if api.ws.mailbox else []}


LOOKS: dict[str, Look] = {
    "state": state,
    "messages": messages,
    "views": lambda api, me, request: {"view": views.top_view(api.ws, me.id)},
    "home": lambda api, me, request: {"view": api.ws.state.homes.get(me.id)},
    "mail": mails,
}


async def act_say(api: PageApi, args: Args) -> Json:
    thread = args.text("thread_ts") or None
    return {"ts": acts.say(api.ws, args.need("person"), args.need("channel"), args.text("text"), thread, encoded=True)}


async def act_edit(api: PageApi, args: Args) -> Json:
    where = (args.need("person"), args.need("channel"), args.need("ts"))
    acts.edit(api.ws, *where, args.text("text"), encoded=True)
    return {}


async def act_delete(api: PageApi, args: Args) -> Json:
    acts.delete(api.ws, args.need("person"), args.need("channel"), args.need("ts"))
    return {}


async def act_click(api: PageApi, args: Args) -> Json:
    """A button of a message (`channel`, `ts`), or of a dialog or the Home tab (`view_id`)."""
    person, action = args.need("person"), args.need("action_id")
    block, value = args.text("block_id") or None, args.values.get("value")
    if args.has("view_id"):
        done = await acts.click_view(api.ws, person, args.text("view_id"), action, block_id=block, value=value)
    else:
        where = (args.need("channel"), args.need("ts"))
        done = await acts.click(api.ws, person, *where, action, block_id=block, value=value)
    return ended(done)


async def act_submit(api: PageApi, args: Args) -> Json:
    values = args.json("values")
    if not isinstance(values, dict):
        raise Refused("invalid_arguments")
    done = await acts.submit(api.ws, args.need("person"), args.need("view_id"), values)
    if done.error == "invalid_input":
        return {"errors": {block: say(f"workspace.{what}", api.language(args)) for block, what in done.errors.items()}}
    return {"errors": dict(done.errors)} if done.errors else ended(done)


async def act_close(api: PageApi, args: Args) -> Json:
    await acts.close_view(api.ws, args.need("person"), args.need("view_id"))
    return {}


async def act_slash(api: PageApi, args: Args) -> Json:
    where = (args.need("person"), args.need("channel"))
    return ended(await acts.slash(api.ws, *where, args.need("command"), args.text("text")))


async def act_home(api: PageApi, args: Args) -> Json:
    acts.open_home(api.ws, args.need("person"))
    return {}


async def act_read(api: PageApi, args: Args) -> Json:
    acts.read(api.ws, args.need("person"), args.need("channel"))
    return {}


async def act_locale(api: PageApi, args: Args) -> Json:
    acts.set_locale(api.ws, args.need("person"), args.need("locale"))
    return {}


def ended(done: acts.Done) -> Json:
    if not done.ok:
        raise Refused(done.error)
    return {}


ACTS: dict[str, Act] = {
    "say": act_say,
    "edit": act_edit,
    "delete": act_delete,
    "click": act_click,
    "submit": act_submit,
    "close": act_close,
    "slash": act_slash,
    "home": act_home,
    "read": act_read,
    "locale": act_locale,
}
