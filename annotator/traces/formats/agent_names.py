"""The names that spans of LangSmith and Langfuse give their agents, who have no kind of their own.

A name is in the metadata (``lc_agent_name`` of LangChain 1.0, ``agent_name``), in the node of a
graph (LangGraph), or is the span's own, if that says that it is an agent.
"""

import re
from collections.abc import Mapping
from typing import Any

from annotator.traces.cells import parse_cell
from annotator.traces.records import get_dict, get_first_text, get_text, walk_path

_METADATA = ("metadata", "extra.metadata", "extra")
_NAMES = (
    *("lc_agent_name", "agent_name", "ls_agent_name", "agent.name", "gen_ai.agent.name"),
    *("agent", "crewai_agent_role", "agent_role"),
)
_INNER_NODES = {"agent", "model", "call_model", "llm", "chatbot", "tools", "model_request"}
_NODE = "langgraph_node"
_NAMESPACES = ("langgraph_checkpoint_ns", "checkpoint_ns")
_WORD = re.compile(r"(?i:(?:^|[\s_.:/-])agent(?:[\s_.:/-]|$))|[a-z0-9]Agent(?=[A-Z]|$)")


def find_agent_name(item: Mapping[str, Any], title: str, role: str) -> str | None:
    """Return the name of the agent that a span is or names; None if it names none."""
    fields: dict[str, Any] = {}
    for path in _METADATA:
        metadata = get_dict(parse_cell(walk_path(item, path)))
        fields = {**get_dict(metadata, "attributes"), **metadata, **fields}
    if name := get_first_text(fields, *_NAMES):
        return name
    node = get_text(fields.get(_NODE))
    if node in _INNER_NODES:  # of a graph that is an agent; its own node is one further out
        namespace = get_first_text(fields, *_NAMESPACES) or ""
        outer = [segment.partition(":")[0] for segment in namespace.split("|")][:-1]
        node = next((segment for segment in reversed(outer) if segment not in _INNER_NODES), node)
    if node and node != "tools":
        return node
    return title if role == "other" and _says_agent(title) else None


def _says_agent(title: str) -> bool:
    """Whether the name of a span says that it is an agent: ``planner_agent``, ``CodeAgent``."""
    return title.lower() != "agent" and _WORD.search(title[:80]) is not None
