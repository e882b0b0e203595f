"""The values that the buttons of Feishu cards carry, and that come back with a press.

A value is an object of texts, because Feishu's SDKs take nothing else. It names what was pressed and is never an
authority: the presser is the person that the verified payload names, and everything is checked again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from bot.chat.messages import Click, MessageRef, Place
from bot.core.work_items import TICKED
from bot.platforms.shared import MAX_TICKS
from tools.spec import FrozenModel

KIND = "cs"
"""Key of the kind. A value without it is not ours."""
ID_MAX, CARRIED_MAX = 255, 60_000
"""Characters of an id or another short text, and of what a form carries from page to page."""
TICK = "tick~"
"""Beginning of the names of boxes. The value of the option follows."""

Short: TypeAlias = Annotated[str, Field(max_length=ID_MAX)]
Number: TypeAlias = Annotated[int, Field(ge=0, lt=10**9)]
Carried: TypeAlias = Annotated[dict[Short, Annotated[str, Field(max_length=CARRIED_MAX)]], Field(max_length=400)]
Page: TypeAlias = Annotated[int, Field(ge=0, lt=100)]


class DecisionValue(FrozenModel):
    """See `Click`."""

    approval: Short
    version: Number
    choice: Short
    seal: Short = ""

    def build_click(self, **press: Any) -> Click:
        return Click(approval=self.approval, version=self.version, choice=self.choice, seal=self.seal, **press)


class PressValue(DecisionValue):
    """A button of a card, the boxes beside it, or a picker of people."""

    thread: Short = ""
    direct: bool = False
    shared: bool = False
    on_page: bool = False
    """Whether the button is on Home or in a dialog of it, so that the pressed message is not the card's own."""
    in_dialog: bool = False
    """Whether the button is in a dialog of Home, which closes with the press."""


class OpenFormValue(FrozenModel):
    """A button that opens a form, or the menu of processes in a form, whose choice is `action.option`."""

    process: Short = ""
    offer: Short = ""
    """See `FormSubmission.offer`. With neither, the form has a menu of processes."""
    is_menu: bool = False
    """Whether this is the menu. The form of the chosen process then replaces the pressed card."""


class DialogValue(DecisionValue):
    """The submit button of a dialog."""

    place: Place
    card: MessageRef | None = None
    page: Page = 0
    values: Carried = Field(default_factory=dict)
    """Input of the pages before."""
    kept: Carried = Field(default_factory=dict)
    """See `Dialog.kept`."""
    is_more: bool = False
    """Whether this is the button of the next page, which submits nothing."""


class FormValue(FrozenModel):
    """The submit button of a form."""

    process: Short
    page: Page = 0
    has_choice: bool = False
    values: Carried = Field(default_factory=dict)
    kept: Annotated[tuple[Short, ...], Field(max_length=50)] = ()
    files: Annotated[tuple[Short, ...], Field(max_length=50)] = ()
    """Fields for files of this page, which a card cannot ask for."""
    is_more: bool = False
    """See `DialogValue.is_more`."""


class HomeValue(FrozenModel):
    """A button of Home itself."""

    action: Short
    value: Annotated[str, Field(max_length=2_000)] = ""


class HomeDialogValue(HomeValue):
    """The submit button of a dialog of Home."""

    form: Carried = Field(default_factory=dict)
    seal: Short = ""


class CancelValue(FrozenModel):
    """The button that closes a form without submitting it."""

    title: Short = ""


Value: TypeAlias = PressValue | OpenFormValue | DialogValue | FormValue | HomeValue | HomeDialogValue | CancelValue
KINDS: dict[str, type[Value]] = {
    "press": PressValue, "open_form": OpenFormValue, "dialog": DialogValue, "form": FormValue, "home": HomeValue,
    "home_dialog": HomeDialogValue, "cancel": CancelValue,
}  # fmt: skip
_NAMES = {model: kind for kind, model in KINDS.items()}


def build_value(value: Value) -> dict[str, str]:
    """Build the object that a button carries. Everything that is no text is JSON."""
    given = value.model_dump(mode="json", exclude_defaults=True)
    texts = {
        name: one if isinstance(one, str) else json.dumps(one, ensure_ascii=False, separators=(",", ":"))
        for name, one in given.items()
    }
    return {KIND: _NAMES[type(value)], **texts}


def parse_value(carried: object) -> Value | None:
    """Parse the object that came back. Return None if it is not ours or not of our form."""
    if not isinstance(carried, Mapping):
        return None
    model = KINDS.get(str(carried.get(KIND)))
    texts = {str(name): one for name, one in carried.items() if name != KIND}
    if model is None or not all(isinstance(one, str) and len(one) <= CARRIED_MAX for one in texts.values()):
        return None
    fields = model.model_fields
    try:
        read = {
            name: one if name not in fields or fields[name].annotation is str else json.loads(one)
            for name, one in texts.items()
        }
        return model.model_validate_json(json.dumps(read), strict=True)
    except (ValueError, RecursionError):
        return None


def read_press_form(action: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the person that was picked or the boxes that are ticked, as the platform says, as the form of a `Click`.
    Return None for a bare press. `action` is that of the payload (`event.action`)."""
    picked, form = action.get("option"), action.get("form_value")
    if action.get("tag") == "select_person" and isinstance(picked, str) and 0 < len(picked) <= ID_MAX:
        return {"person": picked}
    if not isinstance(form, Mapping):
        return None
    boxes = [name for name, is_ticked in form.items() if isinstance(name, str) and is_ticked is True]
    named = [name.removeprefix(TICK) for name in boxes if name.startswith(TICK)]
    return {TICKED: ",".join(one for one in named[:MAX_TICKS] if len(one) <= ID_MAX)}
