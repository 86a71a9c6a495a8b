import ssl
from dataclasses import replace

import pytest
from fakes.logbook import RUN, Signing, contribution, entries, event
from fakes.server import fleet, gate_for, job, updates_to

from argosy.core.errors import DamagedError, HostError, PolicyError, SpecError
from argosy.core.fleet import Fleet
from argosy.core.job import Job
from argosy.core.law import Form, Rule
from argosy.core.plan import Estimate, ExchangePlan, Plan, SitePlan
from argosy.core.records import (
    CONTROLLER,
    Body,
    Checkpointed,
    Contribution,
    Planned,
    Roster,
    RunBegun,
)
from argosy.logbook.blobs import digest_of
from argosy.logbook.envelope import open_envelope
from argosy.logbook.gate import Gate
from argosy.logbook.keys import Identity

BLOB = digest_of(b"payload")
TOKYO = Identity(run=RUN, site="tokyo", host="tokyo-1")
FRANKFURT = Identity(run=RUN, site="frankfurt", host="frankfurt-1")
CONTROL = Identity(run=RUN, site=CONTROLLER, host=CONTROLLER)
OSAKA = Identity(run=RUN, site="osaka", host="osaka-1")


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Signing:
    return Signing(tmp_path_factory.mktemp("keys"))


def update(form: str = "update", blob: str = BLOB) -> Contribution:
    return contribution(blob, 7, form=form)


def checkpoint(number: int) -> Checkpointed:
    return Checkpointed(
        round=number, at_seq=0, blob=BLOB, bytes=7, digest="", parameters=1, table="[]"
    )


def planned(**sources: tuple[str, ...]) -> Planned:
    sites = tuple(
        SitePlan(
            site=site, hosts=(), sources=names, tokens_per_s=1.0, seconds_per_step=1.0,
            steps_per_round=1.0, bytes_per_round=1, transfer_s=1.0,
        )
        for site, names in sources.items()
    )  # fmt: skip
    exchange = ExchangePlan(
        codec="fp32", block=128, window_steps=1, window_seconds=None, delay=0,
        outer_learning_rate=1.0, outer_momentum=0.0, staleness=1, checkpoint_every=1,
        evaluate_every=1,
    )  # fmt: skip
    estimate = Estimate(
        tokens_per_s=1.0, rounds=1, seconds=1.0, money=0.0, currency="USD", bytes_up=0,
        bytes_down=0, allreduce_bytes=0,
    )  # fmt: skip
    plan = Plan(
        number=1, sites=sites, exchange=exchange, estimate=estimate, parameters=4, reasons=()
    )
    return Planned(plan=plan, reason="first plan")


PLAN = planned(frankfurt=("german",), tokyo=("japanese",))


def hear(gate: Gate, *said: Body | tuple[str, Body]) -> None:
    for entry in entries(*said):
        gate.hear(open_envelope(entry.raw), entry.body)


def opened(signing: Signing, *rules: Rule, home: str = "DE") -> Gate:
    gate = gate_for(job(*rules), fleet(home))
    hear(gate, signing.begun(), signing.roster(), PLAN)
    return gate


def test_a_site_always_gets_back_what_it_put(signing: Signing) -> None:
    opened(signing).check_fetch(TOKYO, BLOB, frozenset({"tokyo"}))


def test_a_blob_that_no_record_names_is_nobody_elses(signing: Signing) -> None:
    with pytest.raises(PolicyError, match="no record names it"):
        opened(signing, updates_to("*")).check_fetch(FRANKFURT, BLOB, frozenset({"tokyo"}))


def test_an_update_goes_where_a_rule_lets_it(signing: Signing) -> None:
    gate = opened(signing, updates_to("DE"))
    hear(gate, ("tokyo", update()), ("frankfurt", update(blob=digest_of(b"german"))))

    gate.check_fetch(FRANKFURT, BLOB, frozenset({"tokyo"}))
    with pytest.raises(PolicyError, match="may not go to JP"):
        gate.check_fetch(TOKYO, digest_of(b"german"), frozenset({"frankfurt"}))


def test_without_a_rule_an_update_stays(signing: Signing) -> None:
    gate = opened(signing)
    hear(gate, ("tokyo", update()))

    with pytest.raises(PolicyError, match="without a rule nothing leaves"):
        gate.check_fetch(FRANKFURT, BLOB, frozenset({"tokyo"}))


def test_the_controller_and_its_helpers_stand_at_home_and_ask_like_anyone(
    signing: Signing,
) -> None:
    gate = opened(signing, updates_to("JP"))
    hear(gate, ("tokyo", update()), ("frankfurt", update(blob=digest_of(b"german"))))

    with pytest.raises(PolicyError, match="may not go to DE"):
        gate.check_fetch(CONTROL, BLOB, frozenset({"tokyo"}))
    gate.check_fetch(CONTROL, digest_of(b"german"), frozenset({"frankfurt"}))


def test_the_form_that_the_record_says_is_the_form_that_is_judged(signing: Signing) -> None:
    gate = opened(signing, updates_to("*"))
    hear(gate, ("tokyo", update("raw")))

    with pytest.raises(PolicyError, match="raw of japanese"):
        gate.check_fetch(FRANKFURT, BLOB, frozenset({"tokyo"}))


def test_naming_a_blob_of_another_site_does_not_open_it(signing: Signing) -> None:
    """Frankfurt's update may go nowhere; Tokyo, whose own may, names it as if it were its own."""
    rule = Rule(effect="allow", forms=(Form.UPDATE,), origins=("JP",), destinations=("*",))
    gate = opened(signing, rule)
    hear(gate, ("tokyo", update()))

    with pytest.raises(PolicyError, match="no record names it"):
        gate.check_fetch(TOKYO, BLOB, frozenset({"frankfurt"}))


def test_the_initial_model_goes_to_everyone_with_a_seat(signing: Signing) -> None:
    gate = opened(signing)
    hear(gate, checkpoint(0))

    gate.check_fetch(TOKYO, BLOB, frozenset({CONTROLLER}))


def test_a_checkpoint_holds_something_of_every_source(signing: Signing) -> None:
    japanese = Rule(effect="allow", forms=(Form.CHECKPOINT,), origins=("JP",), destinations=("*",))
    gate = opened(signing, japanese)
    hear(gate, checkpoint(5))

    gate.check_fetch(FRANKFURT, BLOB, frozenset({CONTROLLER}))
    with pytest.raises(PolicyError, match="checkpoint of german from DE to JP"):
        gate.check_fetch(TOKYO, BLOB, frozenset({CONTROLLER}))


def test_one_record_that_lets_a_blob_go_is_enough(signing: Signing) -> None:
    gate = opened(signing, updates_to("*"))
    hear(gate, ("tokyo", update("raw")), ("tokyo", update("update")))

    gate.check_fetch(FRANKFURT, BLOB, frozenset({"tokyo"}))


def test_an_update_that_may_not_come_to_the_logbook_is_refused(signing: Signing) -> None:
    gate = opened(signing, updates_to("DE"), home="US")
    (entry,) = entries(("tokyo", update()))

    with pytest.raises(PolicyError, match="the update of tokyo may not go to US"):
        gate.check_append(open_envelope(entry.raw), entry.body)


def test_an_update_in_no_known_form_is_refused(signing: Signing) -> None:
    (entry,) = entries(("tokyo", update("smoke")))

    with pytest.raises(PolicyError, match="no such form: 'smoke'"):
        opened(signing, updates_to("*")).check_append(open_envelope(entry.raw), entry.body)


def test_before_a_plan_a_site_is_judged_by_all_sources(signing: Signing) -> None:
    japanese = Rule(effect="allow", forms=(Form.UPDATE,), origins=("JP",), destinations=("*",))
    gate = gate_for(job(japanese), fleet("US"))
    hear(gate, signing.begun(), signing.roster())
    (entry,) = entries(("tokyo", update()))

    with pytest.raises(PolicyError, match="update of german"):
        gate.check_append(open_envelope(entry.raw), entry.body)
    hear(gate, PLAN)
    gate.check_append(open_envelope(entry.raw), entry.body)


def test_a_site_that_trains_on_nothing_may_send_nothing(signing: Signing) -> None:
    gate = opened(signing, updates_to("*"))
    (entry,) = entries(("osaka", update()))

    with pytest.raises(PolicyError, match="no source"):
        gate.check_append(open_envelope(entry.raw), entry.body)


def test_one_host_may_not_bring_the_record_of_another(signing: Signing) -> None:
    (entry,) = entries(("tokyo", event()))
    gate = opened(signing)

    gate.check_writer(TOKYO, open_envelope(entry.raw))
    with pytest.raises(DamagedError, match="frankfurt/frankfurt-1 may not append as tokyo"):
        gate.check_writer(FRANKFURT, open_envelope(entry.raw))


def certificate(signing: Signing, host: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert((signing.keys(host) / "host.pem").read_text())


def test_only_the_certificate_of_the_newest_roster_may_join(signing: Signing) -> None:
    gate = opened(signing)

    gate.check_seat(TOKYO, certificate(signing, "tokyo-1"))
    with pytest.raises(HostError, match="no seat"):
        gate.check_seat(TOKYO, certificate(signing, "frankfurt-1"))
    with pytest.raises(HostError, match="no seat"):
        gate.check_seat(OSAKA, certificate(signing, "tokyo-1"))
    with pytest.raises(HostError, match="not of another"):
        gate.check_seat(replace(TOKYO, run="another"), certificate(signing, "tokyo-1"))


def test_a_host_that_left_the_roster_may_not_come_back(signing: Signing) -> None:
    gate = opened(signing)
    hear(gate, Roster(seats=tuple(s for s in signing.seats if s.site != "tokyo"), torch=""))

    with pytest.raises(HostError, match="no seat"):
        gate.check_seat(TOKYO, certificate(signing, "tokyo-1"))


def test_before_the_roster_only_the_controller_may_join(signing: Signing) -> None:
    gate = gate_for(job())

    gate.check_seat(CONTROL, certificate(signing, CONTROLLER))
    with pytest.raises(HostError, match="no roster yet"):
        gate.check_seat(TOKYO, certificate(signing, "tokyo-1"))


def test_a_run_whose_job_cannot_be_read_is_not_begun(signing: Signing) -> None:
    def unreadable(job: str, fleet: str) -> tuple[Job, Fleet]:
        raise SpecError("expected a mapping", where="job.yaml:1")

    body = RunBegun(run=RUN, name="n", argosy="", job="?", fleet="?", authority="")
    (entry,) = entries(body)

    with pytest.raises(DamagedError, match="expected a mapping"):
        Gate(unreadable).check_append(open_envelope(entry.raw), entry.body)
