"""Names of a process's nodes for people, and the path that a request has taken through them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tools.workflow.bpmn.graph import ProcessDefinition
from tools.workflow.engine.commands import RequestEvent
from tools.workflow.engine.state import REVOKING, Request

BORDER = re.compile(r"[\u3400-\u9fff][^A-Za-z\u3400-\u9fff]*+(?<=\s)(?=[A-Za-z])")
"""The border between two languages: from a Chinese character to the next Latin letter after a blank."""
WITHDRAWAL = {"zh": "撤回", "en": "withdrawal"}


def get_node_label(definition: ProcessDefinition, node: str) -> dict[str, str]:
    """The name of a node by language. A name in both languages (`审批 Approval`) is split."""
    if node == REVOKING:
        return WITHDRAWAL
    known = definition.nodes.get(node)
    name = " ".join(known.name.split()) if known and known.name else node
    *_, border = (0, *(found.end() for found in BORDER.finditer(name)))
    return {"zh": name[:border].rstrip(), "en": name[border:]} if border else {"zh": name, "en": name}


def list_visited_elements(definition: ProcessDefinition, events: Sequence[RequestEvent]) -> tuple[str, ...]:
    """Ids of the nodes and flows that a request has passed, as far as the definition has them."""
    element_ids = definition.nodes.keys() | {r.flow for n in definition.nodes.values() for r in n.routes}
    ends = {n.id for n in definition.nodes.values() if n.end}
    steps = [step for event in events for step in event.steps]
    passed = {name for step in steps for name in (step.node, step.flow, step.to if step.to in ends else "")}
    return tuple(sorted(passed & element_ids))


def list_current_nodes(definition: ProcessDefinition, request: Request) -> tuple[str, ...]:
    """Ids of the request's current nodes."""
    return tuple(v.node for v in request.visits if v.node in definition.nodes)
