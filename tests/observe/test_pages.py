import csv
from html.parser import HTMLParser
from pathlib import Path

from fakes import history

from argosy.core.job import Job, ModelFromConfig, Source, Training
from argosy.observe import charts, metrics
from argosy.observe.card import card
from argosy.observe.report import (
    COUNTED,
    LOST,
    TIMED,
    Extras,
    blind_lines,
    ranges,
    report,
    times_fewer,
)
from argosy.observe.story import Story, tell

EXTRAS = Extras(
    policy=("Updates may go from EU to JP.", "Nothing else leaves."),
    flows=(("updates of german", "DE", "JP", "rule 1"),),
    audit_ok=True,
    audit_text="ok: 24 records",
    sample="<script>alert(1)</script>",
)
VOID = {"meta", "br", "line", "rect", "circle", "path", "polyline"}


class Outline(HTMLParser):
    """Checks that tags nest, and keeps what a person would read."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [v or "" for k, v in attrs if k in ("href", "src")]
        if tag not in VOID or (tag in VOID and tag not in ("meta", "br")):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open[-1] != tag:
            left = self.open.pop()
            assert left in ("p", "li", "td", "th", "tr"), f"<{left}> was not closed before </{tag}>"
        assert self.open, f"</{tag}> closes nothing"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> Outline:
    outline = Outline()
    outline.feed(page)
    outline.close()
    assert outline.open == []
    return outline


def test_the_report_is_one_well_formed_page_that_loads_nothing() -> None:
    outline = read(report(tell(history.entries(), {"bonn": (7_000, 9_000)}), EXTRAS))

    text = " ".join(outline.text)
    assert outline.links == []
    for expected in ("a <b> run", "audit ok", "8.00 → 3.00", "osaka-1 killed", "rule 1", "at home"):
        assert expected in text


def test_what_the_model_writes_cannot_run_as_a_script() -> None:
    page = report(tell(history.entries()), EXTRAS)

    assert "<script>alert" not in page


def test_a_report_of_a_run_that_never_began_still_reads() -> None:
    outline = read(report(Story(name="x"), EXTRAS))

    assert "No host started." in " ".join(outline.text)


def test_times_fewer_is_all_reduce_over_what_was_exchanged() -> None:
    story = tell(history.entries())

    # both ways, two sites: 4 x 8 MB, against (3 + 1 + 1 + 3) x 2,000 bytes
    assert times_fewer(story) == 4 * 8_000_000 / 16_000
    assert times_fewer(Story()) == 0


def test_ticks_are_round_and_inside() -> None:
    axis = charts.Axis(low=0.03, high=0.98, from_px=0, to_px=100)

    ticks = axis.ticks()

    assert ticks == [0.2, 0.4, 0.6000000000000001, 0.8]
    assert charts.Axis(low=1, high=1, from_px=0, to_px=1).ticks() == [1]


def test_numbers_are_for_people() -> None:
    assert charts.number(12_345_678) == "12.3 M"
    assert charts.size(999) == "999 B"
    assert charts.size(1_500) == "1.5 kB"
    assert charts.duration(59) == "59 s"
    assert charts.duration(61) == "1 min 01 s"
    assert charts.duration(3_700) == "1 h 01 min"


def test_the_card_names_sources_sites_and_losses() -> None:
    source = Source(name="german", path="x", country="DE", personal=True)
    job = Job(name="j", model=ModelFromConfig(), sources=(source,), training=Training(tokens=4_000))

    text = card(job, tell(history.entries()), EXTRAS, version="0.1.0")

    assert "| german | 8.000 | 3.000 |" in text
    assert "| german | DE | yes | no | bonn |" in text
    assert "audit: ok" in text


def test_metrics_reach_a_csv_file_whole(tmp_path: Path) -> None:
    found = metrics.points(history.entries())

    metrics.write_csv(found, tmp_path / "metrics.csv")

    with (tmp_path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(found) == 7 + 4 + 3
    assert {"series": "train/loss", "who": "bonn", "step": "1000", "value": "2.0"}.items() <= next(
        row for row in rows if row["series"] == "train/loss"
    ).items()
    assert list(tmp_path.iterdir()) == [tmp_path / "metrics.csv"]


def test_metrics_reach_tensorboard_files(tmp_path: Path) -> None:
    metrics.write_tensorboard(metrics.points(history.entries()), tmp_path)

    assert {folder.name for folder in tmp_path.iterdir()} == {"bonn", "german", "japanese", "run"}
    assert all(any(folder.glob("events*")) for folder in tmp_path.iterdir())


def worse(*more: tuple[tuple[str, str, int], object]) -> Story:
    """The small run, in which something was found besides."""
    steps = [*history.STEPS[:-1], *more, history.STEPS[-1]]
    return tell(history.entries_of(steps))  # type: ignore[arg-type]


def test_losses_beyond_guessing_are_explained_by_the_site_that_was_away() -> None:
    story = worse((history.BONN, history.seen(2, "japanese", 8.4)))

    (line,) = blind_lines(story)

    assert line.startswith(
        "japanese was above 8 bits per byte after round 2, while osaka, which trains on it, took no"
        " part. "
    )
    assert line in " ".join(read(report(story, EXTRAS)).text)


def test_rounds_with_and_without_the_site_are_told_apart() -> None:
    more = [(history.BONN, history.seen(number, "japanese", 8.5)) for number in (1, 2)]

    (line,) = blind_lines(worse(*more))

    assert line.startswith(
        "japanese was above 8 bits per byte after round 1 and after round 2, while osaka, which"
        " trains on it, took no part. "
    )


def test_no_absence_is_blamed_for_a_loss_of_a_site_that_was_there() -> None:
    (line,) = blind_lines(worse((history.BONN, history.seen(1, "german", 9.0))))

    assert line.startswith("german was above 8 bits per byte after round 1. ")


def test_the_model_before_training_and_losses_below_guessing_need_no_explanation() -> None:
    assert list(blind_lines(worse((history.BONN, history.seen(0, "german", 8.2))))) == []
    assert list(blind_lines(Story())) == []


def test_rounds_are_written_as_ranges() -> None:
    assert ranges([3, 4, 5, 9, 11, 12]) == "3-5, 9, 11-12"
    assert ranges([]) == ""


def test_the_report_says_what_is_counted_and_since_when() -> None:
    text = " ".join(read(report(tell(history.entries()), EXTRAS)).text)

    assert COUNTED in text
    assert TIMED in text
    assert LOST not in text, "nothing is lost"
    assert "fewer bytes than all-reduce 41,667 x 2,000 x" in " ".join(text.split())
    assert "0.010 USD" in text


def test_a_return_is_not_told_in_the_same_words_twice() -> None:
    page = report(tell(history.entries()), EXTRAS)

    assert "<td>osaka-1</td><td>returned</td><td></td>" in page
    assert "<td>osaka-1</td><td>fault</td><td>osaka-1 killed</td>" in page
