"""May this go there, in this form? Asked when planning, when moving and when auditing. Pure."""

from argosy.policy.flows import TRAVELS, Flow, flows
from argosy.policy.placement import placement
from argosy.policy.verdict import site_verdict, verdict
from argosy.policy.words import explain

__all__ = [
    "TRAVELS",
    "Flow",
    "explain",
    "flows",
    "placement",
    "site_verdict",
    "verdict",
]
