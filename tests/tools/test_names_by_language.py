"""What readers call a person: in the script of their language where the directory has such a name."""

from __future__ import annotations

import pytest

from tools.people.names import choose_name, format_stand_in, join_in_both_languages, list_names_by_language
from tools.spec import Person


@pytest.mark.parametrize(
    ("name", "others", "zh", "en"),
    [
        ("李四", ("Li Si", "lisi"), "李四", "Li Si"),
        ("Li Si", ("李四", "lisi"), "李四", "Li Si"),
        ("Ann Smith", ("ann",), "Ann Smith", "Ann Smith"),
        ("李四", ("lisi",), "李四", "李四"),
        ("李四", ("lisi@example.com", "U02LI77"), "李四", "李四"),
        ("李四", ("Li\u200b Si",), "李四", "李四"),
        ("李四", ("老板（代理）", "Chef 4"), "李四", "李四"),
        ("Jürgen Groß", ("Jurgen",), "Jürgen Groß", "Jürgen Groß"),
        ("O’Neil", (), "O’Neil", "O’Neil"),
        ("Олег", ("Oleg",), "Олег", "Oleg"),
        ("Ab", (), "Ab", "Ab"),
        ("李四", ("<!channel>", "*Boss*", "Li\nSi"), "李四", "李四"),
    ],
)
def test_a_name_in_the_readers_script(name: str, others: tuple[str, ...], zh: str, en: str) -> None:
    person = Person(id="U1", name=name, names=others)
    assert (choose_name(person, "zh"), choose_name(person, "en")) == (zh, en)
    assert list_names_by_language(person) == {"zh": zh, "en": en}


def test_several_and_who_stands_in() -> None:
    li, wang = {"zh": "李四", "en": "Li Si"}, {"zh": "王五", "en": "Wang Wu"}
    assert join_in_both_languages([li, wang]) == {"zh": "李四、王五", "en": "Li Si, Wang Wu"}
    assert format_stand_in(li, wang) == {"zh": "李四（代王五）", "en": "Li Si for Wang Wu"}
