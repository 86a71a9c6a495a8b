"""The verdict against a table that was written by hand, row by row, from the meaning of the rules.

It judges the judge: planner, gate, data and audit all ask `verdict`, so none of their tests would
see it err. Don't compute a row; think it.
"""

import pytest

from argosy.core.job import Source
from argosy.core.law import Form, Policy, Rule
from argosy.policy import verdict

F = Form
RULES = Policy(
    rules=(
        # 1: personal European sources may train with Japan, America and Germany
        Rule(
            effect="allow",
            forms=(F.UPDATE, F.METRIC, F.CHECKPOINT),
            origins=("EU",),
            destinations=("JP", "US", "DE"),
            personal=True,
        ),
        # 2: what is not personal may go to the EEA, even raw
        Rule(
            effect="allow",
            forms=(F.RAW, F.UPDATE, F.METRIC, F.CHECKPOINT),
            origins=("*",),
            destinations=("EEA",),
            personal=False,
        ),
        # 3: no checkpoint from Germany to America
        Rule(effect="deny", forms=(F.CHECKPOINT,), origins=("DE",), destinations=("US",)),
        # 4: noised updates may go anywhere ...
        Rule(effect="allow", forms=(F.NOISED_UPDATE,), origins=("*",), destinations=("*",)),
        # 5: ... but of sensitive sources not to China
        Rule(
            effect="deny",
            forms=(F.NOISED_UPDATE,),
            origins=("*",),
            destinations=("CN",),
            sensitive=True,
        ),
        # 6: the archive may be opened in Germany
        Rule(
            effect="allow",
            forms=(F.RAW, F.DERIVED),
            origins=("FR",),
            destinations=("DE",),
            sources=("archive",),
        ),
        # 7: the clinic's updates may not go to Japan
        Rule(
            effect="deny",
            forms=(F.UPDATE,),
            origins=("*",),
            destinations=("JP",),
            sources=("clinic",),
        ),
        # 8: masked updates of Japan may go where the EU finds protection adequate
        Rule(
            effect="allow",
            forms=(F.MASKED_UPDATE,),
            origins=("JP",),
            destinations=("EU-ADEQUATE",),
        ),
        # 9: no metric leaves America
        Rule(effect="deny", forms=(F.METRIC,), origins=("US",), destinations=("*",)),
    )
)

# form            from  kind  name     to     may  rule      p = personal, s = sensitive, - = neither
TABLE = """
raw               DE    p     german   DE     yes  -
raw               DE    ps    clinic   DE     yes  -
log               DE    p     german   DE     yes  -
derived           JP    -     manga    JP     yes  -
metric            US    -     news     US     yes  -
checkpoint        US    p     news     US     yes  -
update            DE    p     german   JP     yes  1
update            DE    p     german   US     yes  1
update            FR    p     french   DE     yes  1
update            FR    p     french   JP     yes  1
update            RE    p     island   JP     yes  1
update            DE    -     german   JP     no   -
update            DE    p     german   CA     no   -
update            DE    p     german   FR     no   -
update            DE    p     german   GB     no   -
update            GB    p     british  JP     no   -
update            NO    p     fjord    JP     no   -
update            DE    ps    clinic   JP     no   7
update            DE    ps    clinic   US     yes  1
update            DE    -     clinic   JP     no   7
update            JP    p     clinic   JP     yes  -
metric            DE    p     german   JP     yes  1
metric            DE    p     german   US     yes  1
metric            US    -     news     DE     no   9
metric            US    p     news     DE     no   9
metric            US    -     news     CN     no   9
checkpoint        DE    p     german   JP     yes  1
checkpoint        DE    p     german   US     no   3
checkpoint        DE    -     german   US     no   3
checkpoint        FR    p     french   US     yes  1
checkpoint        US    -     news     DE     yes  2
checkpoint        US    p     news     DE     no   -
raw               US    -     news     DE     yes  2
raw               US    -     news     NO     yes  2
raw               US    -     news     CH     no   -
raw               US    p     news     DE     no   -
raw               DE    p     german   JP     no   -
raw               DE    p     german   US     no   -
raw               DE    p     german   FR     no   -
raw               FR    p     archive  DE     yes  6
derived           FR    ps    archive  DE     yes  6
raw               FR    p     archive  IT     no   -
raw               FR    p     french   DE     no   -
raw               BE    p     archive  DE     no   -
derived           US    -     news     DE     no   -
update            FR    p     archive  DE     yes  1
update            US    -     news     IS     yes  2
update            JP    -     manga    DE     yes  2
update            JP    p     manga    DE     no   -
update            JP    -     manga    US     no   -
noised update     DE    p     german   CN     yes  4
noised update     DE    ps    clinic   CN     no   5
noised update     DE    s     clinic   CN     no   5
noised update     DE    ps    clinic   JP     yes  4
noised update     CN    ps    clinic   CN     yes  -
noised update     JP    p     manga    BR     yes  4
masked update     JP    p     manga    CH     yes  8
masked update     JP    p     manga    NZ     yes  8
masked update     JP    p     manga    US     no   -
masked update     JP    p     manga    CA     no   -
masked update     JP    p     manga    DE     no   -
masked update     DE    p     german   CH     no   -
log               DE    p     german   US     no   -
log               JP    -     manga    DE     no   -
"""
ROWS = TABLE.strip().splitlines()


def test_the_table_has_at_least_forty_rows_and_none_twice() -> None:
    assert len(ROWS) >= 40
    assert len(set(ROWS)) == len(ROWS)


@pytest.mark.parametrize("row", ROWS)
def test_the_verdict_is_the_one_in_the_table(row: str) -> None:
    *words, country, kind, name, to, may, rule = row.split()
    source = Source(
        name=name, path="x", country=country, personal="p" in kind, sensitive="s" in kind
    )

    answer = verdict(RULES, Form(" ".join(words)), source, to)

    assert answer.allowed is (may == "yes")
    assert answer.rule == (None if rule == "-" else int(rule) - 1)
    assert answer.reason
