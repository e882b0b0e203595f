"""What Feishu is sent: the card of each kind of message, form and page. The posts are those of Slack's."""

from collections.abc import Iterator

from bot.chat.messages import FormProblem, Place
from bot.platforms.feishu.cards import Element, render_post
from bot.platforms.feishu.forms import PageState, render_closed_form, render_dialog, render_form
from bot.platforms.feishu.home import render_home, render_home_dialog
from tests.golden.golden_files import compare_sections, format_json
from tests.golden.shown import DIALOG, FORM, HOME, HOME_DIALOG, POSTS

GROUP = Place(platform="feishu", team="t1", channel="oc_1", thread="om_1", shared=True)
PEOPLE = {f"ou_{number:032}": f"person{number}@example.com" for number in range(1, 3)}


def describe_card(card: Element) -> Iterator[str]:
    """The card: how it is set up, then each element below its header."""
    yield format_json({name: value for name, value in card.items() if name != "body"})
    for element in card["body"]["elements"]:
        yield from format_json(element).split("\n")


def test_the_card_of_each_kind() -> None:
    shown: dict[str, Element | None] = {}
    for title, post in POSTS.items():
        [shown[title]] = render_post(post, GROUP)
    second = PageState("en", page=1, values={"text": "x"}, people=PEOPLE)
    shown |= {
        "dialog": render_dialog(DIALOG, PageState("zh", problems=[FormProblem("text", "", "太短")])),
        "its second page, with people": render_dialog(DIALOG, second),
        "form": render_form(FORM, PageState("zh")),
        "form that is closed": render_closed_form("请假", "已提交。"),
        "home": render_home(HOME, "zh"),
        "dialog of home": render_home_dialog(HOME_DIALOG, PageState("zh")),
    }
    assert None not in shown.values()
    compare_sections("feishu/cards.txt", {title: [*describe_card(card)] for title, card in shown.items() if card})
