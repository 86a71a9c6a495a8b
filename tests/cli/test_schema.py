"""`argosy schema`: JSON on standard output, nothing else."""

import json

import pytest
import typer
from typer.testing import CliRunner

from argosy.cli.schema import schema
from argosy.core.errors import SpecError
from argosy.spec import schema as schema_of


@pytest.mark.parametrize(
    ("arguments", "kind"), [([], "job"), (["job"], "job"), (["fleet"], "fleet")]
)
def test_the_schema_is_printed_as_json(arguments: list[str], kind: str) -> None:
    app = typer.Typer()
    app.command()(schema)

    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 0
    assert json.loads(result.output) == schema_of(kind)


def test_an_unknown_kind_is_a_mistake_of_the_user() -> None:
    with pytest.raises(SpecError, match="expected job or fleet, got 'policy'"):
        schema("policy")
