"""Offers: reading, joining one's own, and saying how old a price is."""

from dataclasses import replace
from datetime import date

import pytest

from argosy.catalog.factors import USUAL_FACTORS
from argosy.catalog.offers import OFFERS, Offer, as_text, joined, read_offers, staleness
from argosy.core.errors import SpecError

HEAD = "name,accelerator,count,hour,as_of"


def _one(text: str) -> Offer:
    (offer,) = read_offers(text, "mine.csv")
    return offer


def test_a_quote_of_five_columns_is_an_offer() -> None:
    offer = _one(f"{HEAD}\nbox,t4,2,0.4,2026-11-01\n")

    assert (offer.cloud, offer.name, offer.accelerator, offer.count) == ("own", "box", "T4", 2)
    assert (offer.hour, offer.spot_hour, offer.cores) == (0.4, None, None)
    assert (offer.currency, offer.source) == ("USD", "mine.csv")


def test_what_is_written_is_read_again() -> None:
    text = (
        "cloud,name,region,zones,accelerator,count,cores,memory_gb,hour,spot_hour,currency,"
        "as_of,source\nx,y,eu,a b,V100,1,8,61.5,3,1.25,EUR,2026-11-30,a quote\n"
    )
    offers = read_offers(text, "q.csv")

    assert read_offers(as_text(offers), "again.csv") == offers
    assert offers[0].zones == ("a", "b")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,accelerator,count,hour\n", "mine.csv:1: no column 'as_of'"),
        (f"{HEAD},colour\n", "mine.csv:1: column 'colour' is not known"),
        (f"{HEAD}\nbox,T44x,1,1,2026-11-01\n", "mine.csv:2: accelerator: expected"),
        (f"{HEAD}\nbox,T4,1,1,yesterday\n", "mine.csv:2: as_of: expected a day"),
        (f"{HEAD}\nbox,T4,1,-3,2026-11-01\n", "mine.csv:2: hour: expected a number"),
        (f"{HEAD}\nbox,T4,one,1,2026-11-01\n", "mine.csv:2: count: expected a number"),
        (f"{HEAD}\nbox,T4,1.5,1,2026-11-01\n", "mine.csv:2: expected a whole count"),
        (f"{HEAD}\nbox,T4,1,,2026-11-01\n", "mine.csv:2: expected a whole count"),
        ("", "mine.csv:1: no column 'name'"),
    ],
)
def test_a_mistake_names_its_line(text: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_offers(text, "mine.csv")

    assert str(caught.value).startswith(said)


def test_an_own_offer_takes_the_place_of_the_same_one() -> None:
    listed = OFFERS[0]
    cheaper = replace(listed, hour=0.01)
    new = _one(f"{HEAD}\nbox,T4,1,0,2026-11-01\n")

    table = joined(OFFERS, (cheaper, new))

    assert len(table) == len(OFFERS) + 1
    assert cheaper in table
    assert listed not in table


def test_prices_older_than_thirty_days_are_said() -> None:
    offer = _one(f"{HEAD}\nbox,T4,1,1,2026-11-01\n")
    older = replace(offer, name="attic", as_of=date(2026, 10, 1))

    assert staleness((offer,), date(2026, 12, 1)) == ""
    assert staleness((offer,), date(2026, 12, 2)).startswith(
        "1 price is older than 30 days (of 2026-11-01, 31 days)"
    )
    assert staleness((offer, older), date(2026, 12, 2)).startswith(
        "2 prices are older than 30 days (the oldest of 2026-10-01, 62 days)"
    )


def test_every_listed_offer_has_a_price_and_a_day() -> None:
    assert len(OFFERS) > 200
    assert all(offer.hour > 0 and offer.as_of >= date(2026, 1, 1) for offer in OFFERS)


def test_the_usual_factors_are_logs_with_a_spread() -> None:
    assert set(USUAL_FACTORS) == {"time", "memory"}
    assert all(one.spread > 0 for table in USUAL_FACTORS.values() for one in table.values())
