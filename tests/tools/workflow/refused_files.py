"""The files that are refused, and what is said of each."""

import tomllib
from pathlib import Path

from tools.workflow.bpmn.expressions import Type

CORPUS = Path(__file__).parent / "corpus"
EXPECTED = tomllib.loads((CORPUS / "expected.toml").read_text(encoding="utf-8"))
TYPES: dict[str, Type] = {"days": "number", "purpose": "text"}
