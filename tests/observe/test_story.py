from dataclasses import replace

from fakes import history

from argosy.core.records import Body, Crew, HostEvent, HostStarted
from argosy.observe.story import tell, worded


def test_the_story_of_an_empty_log_is_an_empty_story() -> None:
    story = tell([])

    assert story.outcome == "running"
    assert story.rounds == ()
    assert story.seconds == 0


def test_rounds_losses_and_outcome_come_from_the_records() -> None:
    story = tell(history.entries())

    assert story.outcome == "done"
    assert [r.members for r in story.rounds] == [("bonn", "osaka"), ("bonn",), ("bonn",)]
    assert dict(story.losses) == {
        "german": ((0, 8.0), (3, 3.0)),
        "japanese": ((0, 8.0), (3, 3.5)),
    }
    assert story.tokens == 4_000


def test_bytes_of_a_site_are_what_it_posted_and_what_the_commits_made_it_fetch() -> None:
    bonn, osaka = tell(history.entries(), {"bonn": (7_000, 9_000)}).sites

    assert (bonn.payload_up, bonn.payload_down) == (3 * 2_000, 1 * 2_000)
    assert (osaka.payload_up, osaka.payload_down) == (1 * 2_000, 3 * 2_000)
    assert (bonn.model_down, osaka.model_down) == (400_000, 2 * 400_000)
    assert (bonn.counted_up, bonn.counted_down) == (7_000, 9_000)
    assert osaka.counted_up is None


def test_all_reduce_is_counted_for_the_same_tokens_over_the_same_sites() -> None:
    bonn, _ = tell(history.entries()).sites

    # 4,000 tokens at 100 a step and site over two sites: 20 steps, each 2 (2-1)/2 x 4 bytes.
    assert bonn.allreduce_each_way == 20 * 4 * history.PARAMETERS


def test_a_kill_and_a_return_are_marks_and_two_lives() -> None:
    story = tell(history.entries())

    assert [m.what for m in story.marks] == ["started", "started", "fault", "returned", "regroup"]
    osaka = [life for life in story.lives if life.site == "osaka"]
    assert [life.incarnation for life in osaka] == [1, 2]
    assert osaka[0].to_ms <= osaka[1].from_ms


def test_a_clock_that_is_wrong_by_an_hour_is_put_right_on_the_time_line() -> None:
    told = history.entries()
    start = told[6]
    assert isinstance(start.body, HostStarted)
    off = replace(start.body, clock_offset_ms=3_600_000)
    told[6] = replace(start, body=off, at_ms=start.at_ms + 3_600_000)

    story = tell(told)

    assert story.lives[1].from_ms == start.at_ms


def test_a_host_that_only_follows_lives_as_long_as_its_site_writes_until_it_is_lost() -> None:
    crew = Crew(site="bonn", epoch=1, hosts=("bonn-1", "bonn-2"))
    lost = HostEvent(what="lost", site="bonn", host="bonn-2", detail="bonn-2 was killed")
    steps: list[tuple[tuple[str, str, int], Body]] = [
        (history.CONTROLLER, crew),
        (history.BONN, history.started()),
        (("bonn", "bonn-2", 1), history.started()),
        (history.BONN, history.progress(1_000)),
        (history.CONTROLLER, lost),
        (history.BONN, history.progress(2_000)),
    ]

    lives = {life.host: life for life in tell(history.entries_of(steps)).lives}

    assert (lives["bonn-1"].from_ms, lives["bonn-1"].to_ms) == (2_000, 6_000)
    assert (lives["bonn-2"].from_ms, lives["bonn-2"].to_ms) == (3_000, 4_000)


def test_a_moment_is_put_in_words_without_saying_anything_twice() -> None:
    assert worded("returned", "osaka-1 returned") == "osaka-1 returned"
    assert worded("lost", "its process was killed") == "lost: its process was killed"
