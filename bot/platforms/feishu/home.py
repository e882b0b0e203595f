"""A person's Home on Feishu: one card in their chat with the bot, which is rewritten, and the dialogs that it opens."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

from bot.chat.messages import ChatDirectory, HomeDialog, HomeEntry, HomeView, Place
from bot.core import logs
from bot.core.errors import ChatRefusedError
from bot.core.i18n import translate
from bot.platforms.feishu import cards
from bot.platforms.feishu.cards import MAX_BYTES, MAX_ELEMENTS, Element, render_small_print
from bot.platforms.feishu.channel import FeishuChannel
from bot.platforms.feishu.forms import PageState, build_form_card, render_inputs
from bot.platforms.feishu.sent_cards import SentCards
from bot.platforms.feishu.text import format_label
from bot.platforms.feishu.values import HomeDialogValue, OpenFormValue
from bot.platforms.shared import find_language, fit_entries

log = logs.get_logger(__name__)

_DM = Place(platform="feishu", team="", channel="", direct=True)
"""The place of a press on Home. Team and channel are those of the payload."""
RESERVE = 1_000
"""Bytes for the line that counts what was left out."""


async def publish_home(
    channel: FeishuChannel, sent: SentCards, directory: ChatDirectory, person: str, view: HomeView
) -> None:
    """Rewrite a person's latest Home card. Post a new one if there is none, if it was recalled, or if it is older than
    the 14 days for which Feishu takes updates. Raises `ChatError`, `StoreUnavailableError`."""
    card, name = render_home(view, await find_language(directory, person, "zh")), f"home:{person}"
    if (known := await sent.find_post(name)) is not None:
        try:
            await channel.patch_card(known.ts, card)
            return
        except ChatRefusedError as refused:
            log.info("home.posted_anew", code=refused.code)
    await sent.save_post(await channel.post_form(person, card, key=f"home:{uuid4().hex}"), name)


def render_home(view: HomeView, language: str) -> Element:
    """Render Home. Entries for which there is no room are left out and counted."""
    top = [*cards.render_title_in_full(view.title), *render_small_print(view.freshness)]
    if view.request:
        top.append(cards.build_row([cards.build_button(view.request, "primary", OpenFormValue())]))
    top += render_small_print(view.start)
    frames = list[tuple[list[Element], list[Element]]]()
    for section in view.sections:
        head: list[Element] = [{"tag": "hr"}, *cards.render_literal(section.title, text_size="heading")]
        head += render_small_print(section.empty) if not section.entries else []
        frames.append((head, [*render_small_print(section.note), *cards.build_rows(section.buttons, _DM)]))
    frame = cards.build_card(view.title, [*top, *(one for pair in frames for part in pair for one in part)], view.title)
    room = MAX_BYTES - RESERVE - cards.count_bytes([frame]), MAX_ELEMENTS - 2 - cards.count_elements(frame)
    fitting, left = fit_entries(
        *(view.sections, frames, room, lambda entry, where: _render_entry(entry)),
        measure=lambda shown: (cards.count_bytes(shown), cards.count_elements(shown)),
    )
    rest = render_small_print(translate("slack.more_at_home", language, count=left)) if left else ()
    notice = format_label(view.title, cards.HEADER) or "…"
    return cards.build_card(view.title, [*top, *fitting, *rest], notice, "blue")


def _render_entry(entry: HomeEntry, *, in_dialog: bool = False) -> Iterator[Element]:
    yield from cards.render_literal(entry.card.title, text_size="heading")
    yield from cards.render_card_content(entry.card)
    yield from cards.build_rows([*entry.card.buttons, *entry.buttons], _DM, on_page=True, in_dialog=in_dialog)


def render_home_dialog(dialog: HomeDialog, state: PageState) -> Element | None:
    """Render a dialog of Home. A card that is too long is not pressed here, because it is in the DM as a whole. Return
    None if the dialog does not fit into a card even so."""
    value = HomeDialogValue(action=dialog.action, value=dialog.value, form=dict(dialog.form), seal=dialog.seal)
    carried = value if dialog.submit else None
    whole = list(_render_entry(HomeEntry(dialog.card), in_dialog=True)) if dialog.card else []
    pointer = list(render_small_print(translate("home.whole_in_dm", state.language))) if dialog.card else []
    for entry in (whole, pointer):
        above = [*render_small_print(dialog.notice), *entry]
        fields = render_inputs(dialog.inputs, state)
        below = cards.build_rows(dialog.buttons, _DM)
        if shown := build_form_card(dialog.title, above, fields, dialog.submit, carried, dialog.cancel, below=below):
            return shown
    return None
