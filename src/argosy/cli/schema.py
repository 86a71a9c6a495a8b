"""`argosy schema`: the files' JSON Schema, for editors."""

import json
from typing import Annotated

import typer


def schema(
    kind: Annotated[str, typer.Argument(metavar="job|fleet", help="Which file's schema.")] = "job",
) -> None:
    """Print the JSON Schema of job.yaml or fleet.yaml."""
    from argosy import spec

    print(json.dumps(spec.schema(kind), indent=2, ensure_ascii=False))
