"""`argosy catalog`: what is shown, and one's own offers in the same table."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from argosy.cli.catalog import catalog
from argosy.core.errors import DiskError, SpecError

QUOTE = "name,accelerator,count,hour,as_of\nrack,V100,4,1.5,2026-01-01\n"


def _said(*arguments: str) -> str:
    result = CliRunner().invoke(catalog, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_accelerators_are_shown_with_their_builds() -> None:
    assert "T4 " in _said("show")
    shown = json.loads(_said("show", "accelerators", "--gpu", "v100-16", "--json"))

    assert [row["torch"] for row in shown["accelerators"]] == ["cu126"]


def test_a_quote_joins_the_table_and_its_age_is_said(tmp_path: Path) -> None:
    quote, own = tmp_path / "quote.csv", tmp_path / "new" / "offers.csv"
    quote.write_text(QUOTE, encoding="utf-8")

    said = _said("update", str(quote), "--own", str(own))
    shown = _said("show", "offers", "--gpu", "V100", "--own", str(own))

    assert "1 offers read, 1 of your own" in said
    assert "1 price is older than 30 days" in said
    assert "rack" in shown
    assert "older than 30 days (of 2026-01-01" in shown
    assert list(own.parent.iterdir()) == [own]


def test_own_offers_lie_where_programs_keep_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quote = tmp_path / "quote.csv"
    quote.write_text(QUOTE.replace("2026-01-01", "9999-01-01"), encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))

    said = _said("update", str(quote))

    assert (tmp_path / "settings/argosy/offers.csv").exists()
    assert "older" not in said
    assert "rack" in _said("show", "offers", "--gpu", "V100")


def test_what_cannot_be_shown_read_or_written_is_said(tmp_path: Path) -> None:
    def fails(*arguments: str) -> None:
        CliRunner().invoke(catalog, list(arguments), catch_exceptions=False)

    quote = tmp_path / "quote.csv"
    quote.write_text(QUOTE, encoding="utf-8")
    with pytest.raises(SpecError, match="did you mean"):
        fails("show", "--gpu", "V1000")
    with pytest.raises(SpecError, match="no offer"):
        fails("show", "offers", "--region", "moon")
    with pytest.raises(SpecError, match="cannot be read"):
        fails("update", str(tmp_path / "nothing.csv"))
    with pytest.raises(DiskError, match="cannot be written"):
        fails("update", str(quote), "--own", str(quote / "offers.csv"))
