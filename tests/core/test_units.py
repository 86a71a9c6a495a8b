import pytest

from argosy.core.units import money


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (1234.5, "1,234.50"),
        (12.345, "12.35"),
        (1, "1.00"),
        (0.5, "0.50"),
        (0.047, "0.047"),
        (0.00143, "0.0014"),
        (0.000000999, "0.0000010"),
    ],
)
def test_money_is_in_cents_and_small_amounts_have_two_digits(amount: float, text: str) -> None:
    assert money(amount) == text
    assert money(amount, "USD") == f"{text} USD"
