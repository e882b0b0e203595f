"""Which names look alike: Unicode's own pairs, and the names of people who look alike or do not."""

from importlib import resources

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tools.people.lookalikes import compute_looks, compute_skeleton, is_lookalike, split_skeleton

LINES = resources.files("tools.people").joinpath("confusables.tsv").read_text(encoding="utf-8").splitlines()


def spell(numbers: str) -> str:
    return "".join(chr(int(number, 16)) for number in numbers.split())


PAIRS = [
    (spell(source), spell(prototype))
    for prototype, _, sources in (line.partition("\t") for line in LINES if not line.startswith("#"))
    for source in sources.split()
]


def test_every_pair_of_unicodes_confusables_looks_alike() -> None:
    """https://www.unicode.org/Public/security/18.0.0/confusables.txt: 6,712 lines."""
    assert "version 18.0.0" in LINES[0] and len(PAIRS) == 6712
    seen = [(one, other) for one, other in PAIRS if compute_looks(one)]
    assert len(seen) > 6600, "the others cannot be seen at all, or are blanks"
    assert [pair for pair in seen if not is_lookalike(*pair)] == []
    assert all(is_lookalike(f"Li{one}Si", f"Li{other}Si") for one, other in seen)


@corpus(
    ("one", "other"),
    # UTS #39 §4 and UTR #36 §2: their own examples.
    ("paypal", "раураl"),
    ("paypal", "pаypаl"),
    ("scope", "ѕсоре"),
    ("toys", "toуs"),
    ("ǉeto", "ljeto"),
    ("so̷s", "so̸s"),
    # One colleague who poses as another.
    ("Li Si", "Lі Sі"),
    ("Li Si", "Ｌｉ　Ｓｉ"),
    ("Li Si", "Ii Si"),
    ("Li Si", "L1 S1".replace("1", "ı")),
    ("LI SI", "L1 S1"),
    ("Bill", "BiII"),
    ("Tom", "Torn"),
    ("Li Si", "Li\u200dSi"),
    ("Li Si", "\u202eLi Si\u202c"),
    ("Li Si", "\u2066Li Si\u2069"),
    ("Li Si", "L\u0456\ufe0f Si"),
    ("Li Si", "li\u3164si"),
    ("LİSİ", "lisi"),
    ("lisi", "li̇si"),
    ("王二", "王ニ"),
    ("王力", "王カ"),
    ("王工", "王エ"),
    ("李四", "李\U000e0101四"),
    ("李四 2", "李四２"),
    ("⭐ Li", "⭐\ufe0f Li"),
)
def test_these_look_alike(one: str, other: str) -> None:
    assert is_lookalike(one, other) and is_lookalike(other, one)


@corpus(
    ("one", "other"),
    ("李四", "李泗"), ("王五", "王伍"), ("张三", "章三"), ("陈晨", "陈辰"), ("Jose", "José"), ("Müller", "Muller"),
    ("Anna", "Ann"), ("Bill", "Bili"), ("Ali", "Eli"), ("Li Si", "Li Siguang"), ("Иван", "Иваn1"),
    ("Maria", "Marla"), ("", "Li Si"), ("\u200b", "\u3164"),
)  # fmt: skip
def test_these_do_not(one: str, other: str) -> None:
    assert not is_lookalike(one, other)


@corpus(
    ("name", "part", "begins", "stands"),
    ("Wang Wu", "Wang", True, True),
    ("Wang Wu", "wu", True, True),
    ("Wang Wu", "ang", False, True),
    ("Anne-Marie", "marie", True, True),
    ("王小明", "小明", True, True),
    ("Tom", "Tor", False, False),
    ("Tom", "n", False, False),
    ("Torn", "Tor", True, True),
    ("José", "Jose", False, False),
    ("Lі Sі", "li", True, True),
)
def test_a_part_of_a_name_begins_and_ends_between_letters(name: str, part: str, begins: bool, stands: bool) -> None:
    skeleton = split_skeleton(name)
    assert skeleton.has_word(compute_skeleton(part)) == begins
    assert skeleton.has_part(compute_skeleton(part)) == stands


@given(st.text(max_size=40))
def test_a_text_looks_like_itself_in_capitals_full_width_and_with_something_hidden(text: str) -> None:
    for other in (text, f"\u200b{text}\u2060", f"  {text} ", text.replace("i", "\u0456").replace("a", "\u0430")):
        assert compute_looks(text) & compute_looks(other) or not compute_looks(text)
    assert split_skeleton(text).has_word(compute_skeleton(text)) or not compute_skeleton(text)[:1].isalnum()
