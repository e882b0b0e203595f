"""What can be said of the page without a browser: its words, its colours, and that nothing foreign is in it."""

import re
import tomllib
from itertools import product
from pathlib import Path

import pytest

import bot

PAGE = Path(bot.__file__).parent / "dev/workspace/page"
WORDS = tomllib.loads((Path(bot.__file__).parent / "core/words/page.toml").read_text("utf-8"))["page"]
SOURCES = {file.name: file.read_text("utf-8") for file in sorted(PAGE.iterdir())}
SCRIPTS = {name: text for name, text in SOURCES.items() if name.endswith(".js")}
OWN = "feishu_"
"""Begin of the keys of words that Feishu has otherwise."""
MADE = ("error_", "offer_", "standin_", OWN)
"""Keys the page puts together."""


def named() -> set[str]:
    """Every string in the page that could name one of its words."""
    return {name for text in SOURCES.values() for name in re.findall(r'"([a-z][a-z_]*)"', text)}


def test_every_word_the_page_asks_for_exists_and_is_used_and_filled_in() -> None:
    calls = {key for text in SCRIPTS.values() for key in re.findall(r'\bt\("([a-z_]+)"', text)}
    marked = set(re.findall(r'data-t(?:-[a-z]+)?="([a-z_]+)"', SOURCES["index.html"]))
    assert calls | marked <= set(WORDS)
    assert {key for key in WORDS if not key.startswith(MADE)} <= named()
    assert {key.removeprefix(OWN) for key in WORDS if key.startswith(OWN)} <= set(WORDS)
    filled = {"name", "n", "time", "type", "command", "code"}
    for key, words in WORDS.items():
        for text in words.values():
            assert set(re.findall(r"\{(\w+)\}", text)) <= filled, key


def test_data_never_becomes_markup_and_no_script_or_style_stands_in_the_document() -> None:
    pattern = r"\.(inner|outer)HTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc"
    assert {name: found for name, text in SCRIPTS.items() if (found := re.findall(pattern, text))} == {}
    html = SOURCES["index.html"]
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", html)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", html))


def test_small_and_without_foreign_resources() -> None:
    address = re.compile(r"""(?:src|href|url|from|import)\s*[=(]?\s*["'(]+\s*((?:https?:)?//[^"')]*)""")
    foreign = [(name, found) for name, text in SOURCES.items() for found in address.findall(text)]
    assert [one for one in foreign if "www.w3.org" not in one[1]] == []
    assert [name for name, text in SOURCES.items() if text.count("\n") >= 400] == []


def palettes(css: str) -> tuple[dict[str, str], dict[str, str]]:
    """The colours in light, and in dark."""
    colour = "(#[0-9a-f]{6})"
    found = re.findall(rf"--([a-z0-9-]+): (?:light-dark\({colour}, {colour}\)|{colour});", css)
    light, dark = ({name: both[n] or both[2] for name, *both in found} for n in (0, 1))
    return light, dark


(LIGHT, DARK), (FEISHU, FEISHU_DARK) = palettes(SOURCES["base.css"]), palettes(SOURCES["feishu.css"])
THEMES = {"light": LIGHT, "dark": DARK, "feishu": LIGHT | FEISHU, "feishu-dark": DARK | FEISHU_DARK}
GROUNDS = ("ground", "surface", "raised", "sunk")
PAIRS = (
    *product(("ink", "ink-2", "ink-3", "bad", "good", "warn", "act", "talk"), GROUNDS),
    *product(("accent", "mention"), GROUNDS),
    *(("accent", "accent-soft"), ("bad", "bad-soft"), ("warn", "warn-soft"), ("mention", "mention-soft")),
    ("accent-ink", "accent"),
)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, success criterion 1.4.3."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def mix(one: str, other: str, share: float) -> str:
    """CSS's `color-mix(in srgb, one share, other)`."""
    parts = [(int(one[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(part * share + rest * (1 - share)):02x}" for part, rest in parts)


def test_text_can_be_read_on_its_ground_and_borders_bubbles_and_bands_can_be_seen() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21) and contrast("#999999", "#ffffff") < 4.5, "the control"
    tones = re.findall(r"--tone: (#[0-9a-f]{6})", SOURCES["card.css"])
    shares = re.findall(r"--share: (\d+)%", SOURCES["feishu.css"])
    assert len(tones) == 3 and len(shares) == 2
    for name, theme in THEMES.items():
        assert [pair for pair in PAIRS if contrast(theme[pair[0]], theme[pair[1]]) < 4.5] == [], name
        assert all(contrast(theme["line-strong"], theme[ground]) >= 3 for ground in ("surface", "raised")), name
    for name, share in zip(("feishu", "feishu-dark"), shares, strict=True):
        theme = THEMES[name]
        for tone in tones:
            words, band = mix(tone, theme["ink"], int(share) / 100), mix(tone, theme["raised"], 0.15)
            assert min(contrast(words, band), contrast(words, theme["raised"])) >= 4.5, (name, tone)
        pairs = product(("ink", "mention"), ("bubble", "mine"))
        assert [pair for pair in pairs if contrast(theme[pair[0]], theme[pair[1]]) < 4.5] == [], name
