"""Which characters nobody sees, held against what Unicode says and what its emoji are."""

import sys
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tests.linear.pace import measure_pace
from tools.characters import count_invisible, has_invisible, remove_invisible, show_invisible

EMOJI = Path(__file__).with_name("emoji_sequences.txt").read_text(encoding="utf-8").split("\n")[:-1]
"""Every sequence of Unicode's emoji-test.txt (17.0) with a joiner, a selector or tags in it, without skin colours."""
IGNORABLE = (
    "00AD 034F 061C 115F-1160 17B4-17B5 180B-180D 180E 180F 200B-200F 202A-202E 2060-2064 2065 2066-206F 3164 "
    "FE00-FE0F FEFF FFA0 FFF0-FFF8 1BCA0-1BCA3 1D173-1D17A E0000 E0001 E0002-E001F E0020-E007F E0080-E00FF "
    "E0100-E01EF E01F0-E0FFF"
)
"""Default_Ignorable_Code_Point as DerivedCoreProperties.txt (17.0) lists it."""
ODD = "ab中1#*⟨⟩\n\t\r\u200b\u200c\u200d\u2028\ufe0f\ufe0e\u202e\u20e3\U000e0067\U000e007f🏴👩💻👍🏽مک❤"
TEXTS = st.text(st.one_of(st.characters(), st.sampled_from(ODD)), max_size=60)


def ranges(listed: str) -> set[int]:
    ends = [one.partition("-") for one in listed.split()]
    return {code for low, _, high in ends for code in range(int(low, 16), int(high or low, 16) + 1)}


def test_what_unicode_calls_ignorable_control_format_or_separator_is_invisible_and_nothing_else_is() -> None:
    categories = ("Cc", "Cf", "Zl", "Zp", "Cs")
    codes = (code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in categories)
    expected = {*ranges(IGNORABLE), *codes} - {ord("\n"), ord("\t")}
    found = {code for code in range(sys.maxunicode + 1) if has_invisible(chr(code))}
    assert expected - found == set()
    assigned = {chr(code) for code in found - expected if unicodedata.category(chr(code)) != "Cn"}
    assert assigned == {"\u2800", "\ufffc"}, "blank Braille, and what stands for an object"


def test_an_emoji_and_a_word_stay_as_they_are_and_ends_of_lines_are_no_secret() -> None:
    assert len(EMOJI) > 600
    changed = [one for one in EMOJI if not one == show_invisible(one) == remove_invisible(one) or has_invisible(one)]
    assert changed == []
    assert show_invisible("".join(EMOJI)) == "".join(EMOJI)
    persian, hindi = "می\u200cخواهم", "क्\u200dष"
    assert [remove_invisible(one) for one in (persian, hindi)] == [persian, hindi]
    assert show_invisible(persian) == "می⟨U+200C⟩خواهم" and has_invisible(persian)
    assert remove_invisible("می\u200c\u200cخ") == "میخ" and remove_invisible("Li\u200cSi\u200d") == "LiSi"
    assert show_invisible("a\r\nb\tc\nd") == "a\nb\tc\nd" == remove_invisible("a\r\nb\tc\nd")
    assert show_invisible("a\u200b\r\nb") == "a⟨U+200B⟩\nb" and remove_invisible("a\u200b\r\nb") == "a\nb"
    assert show_invisible("a\rb") == "a⟨U+000D⟩b"


@corpus(
    ("hidden", "shown"),
    ("🏴" + "".join(chr(0xE0000 + ord(c)) for c in "obey") + "\U000e007f", "🏴⟨U+E006F⟩⟨U+E0062⟩"),
    ("😀" + "\U000e0041" * 3, "😀⟨U+E0041⟩"),
    ("→\u200d→", "→⟨U+200D⟩→"),
    ("👍" + "\u200d👍" * 9, "⟨U+200D⟩"),
    ("😀\ufe0f\ufe0f", "😀\ufe0f⟨U+FE0F⟩"),
    ("pay 1\ufe0f00", "1⟨U+FE0F⟩00"),
)
def test_nothing_hides_in_what_looks_like_an_emoji(hidden: str, shown: str) -> None:
    assert shown in show_invisible(hidden)


@given(TEXTS)
def test_what_is_shown_has_nothing_invisible_and_all_that_is_visible(text: str) -> None:
    shown, removed = show_invisible(text), remove_invisible(text)
    assert not has_invisible(shown)
    assert show_invisible(shown) == shown and remove_invisible(removed) == removed
    assert has_invisible(text) == (count_invisible(text) > 0)
    if not has_invisible(text):
        assert shown == removed == text.replace("\r\n", "\n")


@corpus("work", has_invisible, remove_invisible, show_invisible)
def test_forty_thousand_characters_take_no_time(work: Callable[[str], object]) -> None:
    seeds = ["a\u200b", "😀\u200d", "🏴\U000e0067", "\ufe0f", "1\ufe0f", "م\u200c", "\r\n", "\x00"]
    taken = []
    for seed in seeds:
        text = seed * (40_000 // len(seed))
        times = []
        for _ in range(3):
            began = time.thread_time()
            work(text)
            times.append(time.thread_time() - began)
        taken.append(min(times))
    assert max(taken) < 0.1 * measure_pace(), dict(zip(seeds, taken, strict=True))
