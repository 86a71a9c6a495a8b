"""Job, fleet and what was measured -> the plan with its reasons, or why there is none. Pure."""

from argosy.planner.choose import plan

__all__ = ["plan"]
