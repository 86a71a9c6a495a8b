"""Countries and blocs: the facts, and what a misspelt one is answered with."""

import csv
from importlib.resources import files

import pytest

from argosy.catalog import BLOCS, NAMES, check_country, country_name, expand, place_name


def _codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


MEMBERS_OF_THE_EU = _codes(
    "AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK"
)
PARTS_WITH_THEIR_OWN_CODE = _codes("AX GF GP MF MQ RE YT")


def test_there_are_as_many_countries_as_iso_3166_has_codes() -> None:
    assert len(NAMES) == 249
    assert all(len(code) == 2 and code.isupper() and name for code, name in NAMES.items())


def test_the_eu_is_its_members_and_the_parts_of_them_that_have_their_own_code() -> None:
    assert len(MEMBERS_OF_THE_EU) == 27
    assert expand("EU") == MEMBERS_OF_THE_EU | PARTS_WITH_THEIR_OWN_CODE


def test_the_eea_is_the_eu_with_iceland_liechtenstein_and_norway() -> None:
    assert expand("EEA") == expand("EU") | {"IS", "LI", "NO"}


def test_a_decision_for_some_recipients_only_does_not_make_a_country_adequate() -> None:
    adequate = BLOCS["EU-ADEQUATE"]

    assert adequate.countries == _codes("AD AR BR CH FO GB GG IL IM JE NZ UY")
    assert set(adequate.limited) == {"CA", "JP", "KR", "US"}
    assert "Data Privacy Framework" in adequate.limited["US"]
    assert not adequate.countries & expand("EEA")


@pytest.mark.parametrize("bloc", list(BLOCS))
def test_every_bloc_says_where_its_list_is_from_and_of_which_day(bloc: str) -> None:
    assert BLOCS[bloc].source.startswith("https://")
    assert BLOCS[bloc].as_of >= "2026-01-01"
    assert BLOCS[bloc].countries <= set(NAMES)


@pytest.mark.parametrize("file", ["countries.csv", "blocs.csv"])
def test_every_fact_names_a_source_that_is_listed(file: str) -> None:
    def rows(name: str) -> list[dict[str, str]]:
        text = files("argosy.catalog").joinpath(name).read_text(encoding="utf-8")
        return list(csv.DictReader(text.splitlines()))

    listed = {row["source"] for row in rows("sources.csv")}

    assert {row["source"] for row in rows(file)} <= listed


def test_a_code_stands_for_itself_and_a_star_for_all() -> None:
    assert expand("NO") == {"NO"}
    assert expand("*") == set(NAMES)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Germany", "'DE' (Germany)"),
        ("Germny", "'DE' (Germany)"),
        ("de", "'DE' (Germany)"),
        ("UK", "'GB' (the United Kingdom)"),
        ("USA", "'US' (the United States)"),
        ("eu", "'EU' (the EU)"),
        ("Nederlands", "'NL' (the Netherlands)"),
    ],
)
def test_a_misspelt_place_is_answered_with_the_code_that_was_meant(
    written: str, meant: str
) -> None:
    with pytest.raises(ValueError, match="expected a country, a bloc or") as caught:
        expand(written)

    assert str(caught.value).endswith(f"did you mean {meant}?")


@pytest.mark.parametrize("written", ["XX", "ZZZ", "Atlantis", "", "D E"])
def test_what_resembles_nothing_is_told_what_a_code_looks_like(written: str) -> None:
    with pytest.raises(ValueError, match="ISO 3166"):
        expand(written)


def test_where_one_country_is_wanted_a_bloc_is_refused() -> None:
    assert check_country("JP") == "JP"
    with pytest.raises(ValueError, match="one country, got the bloc 'EU'"):
        check_country("EU")
    with pytest.raises(ValueError, match="did you mean 'JP'"):
        check_country("japan")
    with pytest.raises(ValueError, match="got 'eu': write"):
        check_country("eu")


def test_names_are_as_a_sentence_has_them() -> None:
    assert country_name("JP") == "Japan"
    assert country_name("XX") == "XX"
    assert place_name("*") == "any country"
    assert place_name("EU") == "the EU"
    assert place_name("DE") == "Germany"
