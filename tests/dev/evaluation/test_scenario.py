"""Scenario files: each mistake is an error that says where it stands and what is wrong."""

from pathlib import Path

import pytest

from bot.dev.evaluation.scenario import ScenarioError, parse_scenario, read_scenario, read_scenarios

HEAD = 'title = "Half a day"\nlanguage = "en"\ncategory = "main"\n'
ACT = 'act = [{ who = "zhaoliu", says = "hello" }]\n'


def test_a_mistake_is_named_with_its_place(subtests: pytest.Subtests) -> None:
    for text, wrong in [
        ("title = ", "half.toml is not TOML"),
        (ACT, "title: Field required"),
        (HEAD + "act = []", "act: "),
        (HEAD + "colour = 1\n" + ACT, "colour: Extra inputs are not permitted"),
        (HEAD + 'act = [{ who = "bob", says = "hi" }]', "act 1: there is nobody called 'bob'"),
        (HEAD + 'act = [{ who = "lisi" }]', "act 1: an act is one of says, presses, hours, mailbox, not none"),
        (HEAD + 'act = [{ who = "lisi", says = "a", presses = "b" }]', "not says and presses"),
        (HEAD + 'act = [{ says = "a" }]', "act 1: who says it?"),
        (HEAD + 'act = [{ who = "lisi", says = "a", where = "secrets" }]', "there is no channel 'secrets'"),
        (HEAD + ACT + 'expect = [{ kind = "exploded" }]', "expect 1 kind: there is no effect 'exploded'"),
        (HEAD + ACT + 'expect = [{ kind = "mailed", to = "lisi,bob" }]', "expect 1: there is nobody called 'bob'"),
        (HEAD + ACT + 'forbid = [{ kind = "mailed", by = "bob" }]', "forbid 1: there is nobody called 'bob'"),
        (HEAD + ACT + 'reply = [{ say = "a", tool = "b" }]', "reply 1: a reply is one of"),
        (HEAD + ACT + "reply = [{}]", "not none"),
        (HEAD + 'only = "script"\n' + ACT, 'it says only = "script" and has no [[reply]]'),
        (HEAD + "styles = []\n" + ACT, "styles: it needs at least one style"),
        (HEAD + ACT + 'person = [{ name = "Bob", real_name = "Bob" }]', "person 1 name: String should match"),
        (HEAD + ACT + 'person = [{ name = "bob", real_name = "Bob", manager = "eve" }]', "person: there is nobody"),
        (HEAD + ACT + 'setting = { openai_api_key = "x" }', "setting openai_api_key"),
        (HEAD + ACT + 'handbook = [{ file = "../x.md", text = "x" }]', "handbook 1 file: String should match"),
    ]:
        with subtests.test(text=text):
            with pytest.raises(ScenarioError, match=r"half\.toml") as raised:
                parse_scenario("half", text)
            assert wrong in str(raised.value)


def test_a_folder_of_ones_own_has_scenarios_of_the_least_that_is_one(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no scenario"):
        read_scenarios(tmp_path)
    (tmp_path / "b.toml").write_text(HEAD + ACT)
    (tmp_path / "a.toml").write_text(HEAD + ACT)
    assert [one.name for one in read_scenarios(tmp_path)] == ["a", "b"]
    (tmp_path / "c.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(ScenarioError, match=r"c\.toml cannot be read"):
        read_scenarios(tmp_path)
    with pytest.raises(ScenarioError, match="cannot be read"):
        read_scenario(tmp_path / "none.toml")
    with pytest.raises(ScenarioError, match="not a folder"):
        read_scenarios(tmp_path / "a.toml")
    found = parse_scenario("half", HEAD + ACT)
    assert (found.name, found.act[0].who, found.styles, found.reply) == (
        "half",
        "zhaoliu",
        ("native", "text", "json"),
        (),
    )
