"""Finds all that is missing of the parts that this program is put together from: sentences, tools, features,
processes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from string import Formatter
from types import ModuleType

import bot.features
import tools
from bot.app.dispatch import MODELS
from bot.core import work_items
from bot.core.i18n import load_sentences, translate
from bot.dev.evaluation.scenario import read_scenarios
from bot.features.shipped import FEATURES
from bot.ops.cli.definition_errors import describe_definition_error
from tools.catalog import TOOLS
from tools.languages import LANGUAGES
from tools.spec import Gate, StoredModel
from tools.tool import Tool
from tools.workflow.bpmn.graph import InvalidDefinitionError, collect_definition_errors
from tools.workflow.process.definition import SHIPPED, compile_process

CARD_PARTS = ("purpose", "use_when", "avoid_when", "returns", "privacy")
GATE_PARTS = ("effects", "prepare", "stored_args")
CHINESE, _COLON = re.compile(r"[\u4e00-\u9fff]"), re.compile("[:：]")


def list_gaps(language: str, languages: Collection[str] = LANGUAGES) -> list[str]:
    """List everything that is missing, each in one line in this language. `languages`: those to be complete."""
    modules, sentences = _import_modules(tools), load_sentences()
    found = {one.name: one for module in modules for one in vars(module).values() if isinstance(one, Tool)}
    replies = [reply for one in read_scenarios() for reply in one.reply]
    called = {reply.tool for reply in replies} | {call.tool for reply in replies for call in reply.calls}
    return [
        *find_sentence_gaps(sentences, language, languages),
        *find_tool_gaps(found.values(), sentences, called, language),
        *find_feature_gaps([work_items, *_import_modules(bot.features)], sentences, language),
        *find_process_gaps(Path(tools.__path__[0], "workflow", "definitions"), language),
    ]


def pick_first_gaps(gaps: Sequence[str], most: int) -> list[str]:
    """Pick the first gaps of each kind. Gaps of one kind say the same of different places: a new language lacks every
    sentence."""
    kinds = [_COLON.split(gap, maxsplit=1)[-1] for gap in gaps]
    return [gap for n, gap in enumerate(gaps) if kinds[:n].count(kinds[n]) < most]


def _import_modules(package: ModuleType) -> list[ModuleType]:
    """Import every module of a package: what no list names is found as well."""
    return [import_module(one.name) for one in walk_packages(package.__path__, f"{package.__name__}.")]


def find_sentence_gaps(
    sentences: Mapping[str, Mapping[str, str]], language: str, languages: Collection[str] = ("zh", "en")
) -> Iterator[str]:
    """Yield sentences without one of the languages or with other values to fill in, and titles without a statement."""
    for key, words in sorted(sentences.items()):
        if words.keys().isdisjoint(("zh", "en")):
            yield translate("check.unknown", language, where=key)
            continue
        lacking = [one for one in languages if one not in words or not (words[one].strip() or key.endswith("_words"))]
        matter = key.replace("title.", "matter.", 1)
        for what in (*lacking, *([matter] if matter not in sentences else [])):
            yield translate("check.missing", language, where=key, what=what)
        values = {frozenset(name for _, name, _, _ in Formatter().parse(text) if name) for text in words.values()}
        if len(values) > 1 or words.keys() - {f"{one}{singular}" for one in LANGUAGES for singular in ("", "_one")}:
            yield translate("check.unlike", language, where=key)
        if CHINESE.search(words.get("en", "")) and not key.startswith(("page.", "rehearsal.")):
            yield translate("check.chinese", language, where=key)


def find_tool_gaps(
    found: Iterable[Tool], sentences: Collection[str], called: Collection[str], language: str
) -> Iterator[str]:
    """Yield missing parts of tools. `called` names the tools that scenarios call."""
    for tool in found:
        gate_parts = [name for name in GATE_PARTS if getattr(tool, name)]
        missing = [name for name in CARD_PARTS if not (getattr(tool, name) or "").strip()]
        if tool.gate is Gate.NONE:
            missing += ["gate"] if gate_parts else []
        else:
            missing += [name for name in GATE_PARTS if name not in gate_parts]
            missing += ["scenario"] if tool.name not in called else []
        arguments = tool.schema.get("properties", {}).items()
        missing += [f"description: {name}" for name, one in arguments if not one.get("description", "").strip()]
        keys = (f"tool.{tool.name}", *(f"error.{code}" for code in (*tool.errors, *tool.also)))
        missing += [key for key in keys if key not in sentences]
        for what in (*missing, *([] if tool in TOOLS else ["tools/catalog.py"])):
            yield translate("check.missing", language, where=tool.name, what=what)


def find_feature_gaps(modules: Iterable[ModuleType], sentences: Collection[str], language: str) -> Iterator[str]:
    """Yield features and items of theirs that no list names, and items without a word for administrators."""
    for module in modules:
        for name, value in vars(module).items():
            if getattr(value, "__module__", "") != module.__name__:
                continue
            if name == "build" and value not in FEATURES:
                yield translate("check.missing", language, where=module.__name__, what="FEATURES")
            if isinstance(value, type) and issubclass(value, StoredModel) and "kind" in value.model_fields:
                listed = [] if value in MODELS else ["MODELS"]
                word = f"dead.kind_{value.model_fields['kind'].default}"
                for what in (*listed, *([] if word in sentences else [word])):
                    yield translate("check.missing", language, where=f"{module.__name__}.{name}", what=what)


def find_process_gaps(folder: Path, language: str) -> Iterator[str]:
    """Yield shipped processes that are not listed, lack a file or cannot be used."""
    for name in sorted({one.stem for one in folder.iterdir()}):
        files = [folder / f"{name}{suffix}" for suffix in (".bpmn", ".toml")]
        missing = [one.name for one in files if not one.is_file()]
        for what in (*missing, *([] if name in SHIPPED else ["SHIPPED"])):
            yield translate("check.missing", language, where=name, what=what)
        errors = list[InvalidDefinitionError]()
        with collect_definition_errors(errors):
            if not missing:
                compile_process(*(one.read_bytes() for one in files))
        for error in errors:
            why = describe_definition_error(error, files[0].read_bytes(), language)
            yield translate("check.unusable", language, where=name, why=why)
