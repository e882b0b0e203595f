"""The nodes of a process as people know them, and the way a request has gone through them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tools.workflow.bpmn.graph import ProcessDefinition
from tools.workflow.engine.commands import RequestEvent
from tools.workflow.engine.state import REVOKING, Request

BORDER = re.compile(r"[\u3400-\u9fff][^A-Za-z\u3400-\u9fff]*+(?<=\s)(?=[A-Za-z])")
"""From a Chinese character to the Latin letter that follows it, with a blank before that."""
WITHDRAWAL = {"zh": "撤回", "en": "withdrawal"}


def get_node_label(definition: ProcessDefinition, node: str) -> dict[str, str]:
    """The name of a node. One that is written in both languages (`审批 Approval`) is taken apart."""
    if node == REVOKING:
        return WITHDRAWAL
    known = definition.nodes.get(node)
    name = " ".join(known.name.split()) if known and known.name else node
    *_, border = (0, *(found.end() for found in BORDER.finditer(name)))
    return {"zh": name[:border].rstrip(), "en": name[border:]} if border else {"zh": name, "en": name}


def list_visited_elements(definition: ProcessDefinition, events: Sequence[RequestEvent]) -> tuple[str, ...]:
    """Ids of the nodes and flows that the record tells of, as far as the definition has them."""
    known = definition.nodes.keys() | {r.flow for n in definition.nodes.values() for r in n.routes}
    ends = {n.id for n in definition.nodes.values() if n.end}
    steps = [step for event in events for step in event.steps]
    passed = {name for step in steps for name in (step.node, step.flow, step.to if step.to in ends else "")}
    return tuple(sorted(passed & known))


def list_current_nodes(definition: ProcessDefinition, request: Request) -> tuple[str, ...]:
    """Ids of the nodes where the request is."""
    return tuple(v.node for v in request.visits if v.node in definition.nodes)
