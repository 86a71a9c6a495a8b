"""The files as JSON Schema, for editors."""

from typing import Any

from argosy.core.errors import SpecError
from argosy.spec.fleet_file import FleetKeys
from argosy.spec.job_keys import JobKeys
from argosy.spec.mistakes import suggest
from argosy.spec.words import Keys

KINDS: dict[str, type[Keys]] = {"job": JobKeys, "fleet": FleetKeys}


def schema(kind: str) -> dict[str, Any]:
    """JSON Schema (2020-12) of "job" or "fleet". Raises SpecError for any other kind."""
    if kind not in KINDS:
        raise SpecError(
            f"expected {' or '.join(KINDS)}, got {kind!r}{suggest(kind, list(KINDS))}",
            where="schema",
        )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{kind}.yaml",
        **{k: v for k, v in KINDS[kind].model_json_schema().items() if k != "title"},
    }
