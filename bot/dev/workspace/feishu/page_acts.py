"""The acts of the page in a workspace that speaks Feishu."""

from __future__ import annotations

from bot.dev.workspace.arguments import MethodArguments
from bot.dev.workspace.feishu.acts import click_card
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.page_api import ACTS, Act, PageApi, build_plain_act, read_place, require_success
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.world import Json


async def act_click(api: PageApi, args: MethodArguments) -> Json:
    assert isinstance(api.ws, FeishuWorkspace)
    person, channel, ts = read_place(args, "channel", "ts")
    changed = {name: args.values[name] for name in ("option", "options", "checked") if name in args.values}
    form, name = args.values.get("form"), args.read_text("name")
    if form is not None and not isinstance(form, dict):
        raise WorkspaceError("invalid_arguments")
    done = await click_card(api.ws, person, channel, ts, args.values.get("value"), form=form, name=name, **changed)
    if done.error == "invalid_input":
        return api.describe_result(args, done)
    require_success(done)
    return {"toast": done.answer["toast"]} if done.answer.get("toast") else {}


FEISHU_ACTS: dict[str, Act] = {
    **{name: ACTS[name] for name in ("say", "open", "read", "locale")},
    "click": act_click,
    "menu": build_plain_act("open_menu", "key"),
}
