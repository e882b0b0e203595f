"""Cards, messages, dialogs and pages in plain lines, as a reviewer reads them: one thing a line."""

from collections.abc import Iterator

from bot.chat.messages import (
    Button,
    Card,
    Dialog,
    FormDialog,
    FormInput,
    HomeButton,
    HomeDialog,
    HomeView,
    Moment,
    NamedPeople,
    NamedPerson,
    Post,
    RichText,
)
from tests.golden.golden_files import hide_changing


def format_line(label: str, value: str) -> list[str]:
    """The label in front; further lines of the value below it."""
    return [f"{label if n == 0 else '':8} {line}".rstrip() for n, line in enumerate(value.split("\n"))]


def format_pieces(pieces: str | RichText) -> str:
    texts = list[str]()
    for piece in [pieces] if isinstance(pieces, str) else pieces:
        match piece:
            case Moment():
                texts.append(f"<{piece.text}>")
            case NamedPerson():
                texts.append(f"@{piece.id}")
            case _:
                texts.append(piece)
    return "".join(texts)


def format_value(value: str | NamedPeople) -> str:
    if isinstance(value, str):
        return value
    people = [" ".join(filter(None, (one.name, f"@{one.id}", one.email, *one.more))) for one in value.people]
    marks = [f"⚠ {mark}" for one in value.people for mark in one.marks]
    return " | ".join(filter(None, (value.text, *people, *marks)))


def format_button(button: Button) -> str:
    return f"[{button.label}] {' '.join(filter(None, (button.choice, button.style)))}"


def _format_home_button(button: HomeButton) -> str:
    value = hide_changing(button.value)
    return f"[{button.label}] {' '.join(filter(None, (button.action, value, button.style)))}"


def describe_card(card: Card) -> Iterator[str]:
    if card.title:
        yield from format_line("title", card.title)
    if card.when is not None:
        yield from format_line("when", card.when.text)
    if card.lead:
        yield from format_line("lead", card.lead)
    for label, value in card.facts:
        yield from format_line("struck" if card.is_void else "fact", f"{label}: {format_value(value)}")
    if card.body:
        yield from format_line("body", card.body)
    for option in card.ticks.options if card.ticks else ():
        box = "[x]" if option.is_ticked else "[ ]"
        yield from format_line("tick", " | ".join(filter(None, (f"{box} {option.text}", option.details))))
    for button in card.buttons:
        yield from format_line("button", format_button(button))
    if card.footer:
        yield from format_line("footer", format_pieces(card.footer))


def describe_post(post: Post, *, brief: bool = False) -> Iterator[str]:
    """A message. `brief`: of a card its first line and its buttons."""
    if post.card is not None and brief:
        yield from format_line("card", post.card.title)
        yield from format_line("", post.card.lead) if post.card.lead else ()
        yield from format_line("", " ".join(f"[{one.label}]" for one in post.card.buttons)) if post.card.buttons else ()
        return
    if post.card is not None:
        if post.text != post.card.title:
            yield from format_line("notice", post.text)
        yield from describe_card(post.card)
        return
    if post.steps is not None:
        yield from format_line("steps", post.steps.title)
        for step in post.steps.steps:
            yield from format_line("", " | ".join(filter(None, (step.state.value, step.title, step.details))))
        return
    yield from format_line("plain" if post.plain else "text", format_pieces(post.rich) if post.rich else post.text)
    if post.people is not None:
        yield from format_line("people", format_value(post.people))
    if post.receipt:
        yield from format_line("receipt", post.receipt)
    for button in post.buttons:
        yield from format_line("button", format_button(button))
    if post.picker is not None:
        yield from format_line("picker", f"{post.picker.label} ({post.picker.choice})")
    for pair in post.pairs:
        yield from format_line("rate", " ".join(f"[{one.hint}]" for one in pair))


def _describe_input(one: FormInput) -> Iterator[str]:
    field = one.field
    kind = f"{field.kind}{', required' if field.required else ''}"
    yield from format_line("field", f"{one.label} ({field.name}: {kind}){f' = {field.value}' if field.value else ''}")
    if hint := " ".join(filter(None, (one.hint, "(a change is told at once)" if one.is_watched else ""))):
        yield from format_line("", hint)
    if shown := " | ".join(f"{value}: {text}" for value, text in one.options):
        yield from format_line("", shown)


def describe_dialog(dialog: Dialog) -> Iterator[str]:
    yield from format_line("dialog", f"{dialog.title} ({dialog.choice})")
    if dialog.lead:
        yield from format_line("lead", dialog.lead)
    yield from format_line("matter", dialog.matter)
    for label, value in dialog.about:
        yield from format_line("fact", f"{label}: {format_value(value)}")
    for one in dialog.inputs:
        yield from _describe_input(one)
    yield from format_line("button", f"[{dialog.submit}] [{dialog.cancel}] [{dialog.more}]")


def describe_form(dialog: FormDialog) -> Iterator[str]:
    yield from format_line("form", f"{dialog.title} ({dialog.process}, page {dialog.page})")
    if dialog.choices:
        yield from format_line("choose", " | ".join(f"{key}: {name}" for key, name in dialog.choices))
    for one in dialog.inputs:
        yield from _describe_input(one)
    for label, texts in (("note", dialog.notes), ("warning", dialog.warnings)):
        yield from (line for text in texts for line in format_line(label, text))
    yield from format_line("button", " ".join(f"[{one}]" for one in (dialog.submit, dialog.cancel, dialog.more) if one))


def describe_home(view: HomeView) -> Iterator[str]:
    for label, text in (("page", view.title), ("start", view.start), ("button", view.request and f"[{view.request}]")):
        if text:
            yield from format_line(label, text)
    for section in view.sections:
        yield ""
        yield from format_line("section", section.title)
        for entry in section.entries:
            yield from describe_card(entry.card)
            yield from (line for one in entry.buttons for line in format_line("button", _format_home_button(one)))
        for label, text in (("empty", "" if section.entries else section.empty), ("note", section.note)):
            if text:
                yield from format_line(label, text)
        yield from (line for one in section.buttons for line in format_line("button", _format_home_button(one)))
    yield from format_line("footer", view.freshness)


def describe_home_dialog(dialog: HomeDialog) -> Iterator[str]:
    yield from format_line("dialog", f"{dialog.title} ({' '.join(filter(None, (dialog.action, dialog.value)))})")
    if dialog.notice:
        yield from format_line("notice", dialog.notice)
    yield from describe_card(dialog.card) if dialog.card else ()
    for one in dialog.inputs:
        yield from _describe_input(one)
    yield from (line for one in dialog.buttons for line in format_line("button", _format_home_button(one)))
    yield from format_line("button", " ".join(f"[{one}]" for one in (dialog.submit, dialog.cancel) if one))
