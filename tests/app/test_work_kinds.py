"""Every kind of work has one name: its class, what is stored, and what an administrator reads."""

from __future__ import annotations

import re

import pytest

from bot.app.work_kinds import WORK_KINDS
from bot.core.i18n import load_sentences


@pytest.mark.parametrize("model", [kind.model for kind in WORK_KINDS], ids=lambda model: model.__name__)
def test_a_kind_is_called_like_its_class_and_has_a_word_for_administrators(model: type) -> None:
    kind = model.model_fields["kind"].default  # type: ignore[attr-defined]
    assert kind == re.sub(r"(?<!^)(?=[A-Z])", "_", model.__name__).lower()
    assert f"dead.kind_{kind}" in load_sentences()
