"""Errors: what, where, what now, and the exit code that scripts rely on."""

import pytest

from argosy.core.errors import (
    INTERRUPTED,
    DamagedError,
    DiskError,
    HostError,
    NoPlan,
    PolicyError,
    SpecError,
    UserError,
)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (SpecError, 2),
        (PolicyError, 3),
        (NoPlan, 3),
        (HostError, 4),
        (DiskError, 5),
        (DamagedError, 6),
    ],
)
def test_each_kind_of_error_has_the_exit_code_that_was_promised(
    kind: type[UserError], code: int
) -> None:
    assert kind("x").exit_code == code
    assert issubclass(kind, UserError)


def test_ctrl_c_has_the_shells_own_code() -> None:
    assert INTERRUPTED == 130


def test_an_error_says_what_where_and_what_now() -> None:
    error = SpecError("expected a number, got 'ten'", where="job.yaml:7", hint="write 10")

    assert str(error) == "job.yaml:7: expected a number, got 'ten'\n  write 10"
    assert (error.what, error.where, error.hint) == (
        "expected a number, got 'ten'",
        "job.yaml:7",
        "write 10",
    )


def test_an_error_without_place_or_advice_is_just_its_sentence() -> None:
    assert str(UserError("it broke")) == "it broke"
    assert UserError.exit_code == 1
