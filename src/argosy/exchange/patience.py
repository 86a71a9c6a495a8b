"""How long a round waits for the sites that have not posted yet: learned from past rounds.

A round's clock starts with its first fresh post, one that stands on the newest round. What came
too late for the round before opens the next one, but does not hurry it: the others have only just
begun their windows, so they get the time that a round usually takes, and then the patience.
"""

from argosy.core.plan import Plan

ROUNDS_TO_KNOW = 3  # the first rounds compile, fill caches and open connections: doubled till then
REMEMBERED = 16  # rounds whose first post is kept, to learn from posts that come too late for them


class Smoothed:
    """A duration's mean and deviation, kept as TCP keeps them for retransmission (RFC 6298)."""

    def __init__(self) -> None:
        self._mean_s = 0.0
        self._deviation_s = 0.0
        self.samples = 0

    @property
    def enough_s(self) -> float:
        return self._mean_s + 4 * self._deviation_s

    def foretell(self, mean_s: float, deviation_s: float) -> None:
        self._mean_s, self._deviation_s, self.samples = mean_s, deviation_s, 0

    def learn(self, sample_s: float) -> None:
        self._deviation_s += (abs(sample_s - self._mean_s) - self._deviation_s) / 4
        self._mean_s += (sample_s - self._mean_s) / 8
        self.samples += 1


class Patience:
    """Two things learned: a round's spread, from its first post to its last, and its pace, from
    the commit before it to its first fresh post. One outlier can at most double either."""

    def __init__(self, low_s: float, high_s: float) -> None:
        self._low_s = low_s
        self._high_s = high_s
        self._spread = Smoothed()
        self._pace = Smoothed()
        self._round = 0  # the newest agreed
        self._agreed_s: float | None = None  # when it was heard
        self._first_s: dict[int, float] = {}  # round -> when its first fresh post was heard
        self._last_s = 0.0  # when the newest fresh post was heard

    @property
    def seconds(self) -> float:
        """From a round's first fresh post on."""
        unsure = 1 if self._spread.samples >= ROUNDS_TO_KNOW else 2
        return min(self._high_s, unsure * max(self._low_s, self._spread.enough_s))

    def deadline_s(self, opened_s: float, *, few: bool) -> float:
        """Until when the next round waits, that has had a post since `opened_s`. Twice as long
        while only a few have posted."""
        patience_s = self.seconds * (2 if few else 1)
        fresh_s = self._first_s.get(self._round + 1)
        if fresh_s is None:
            return opened_s + self._pace.enough_s + patience_s
        return fresh_s + patience_s

    def planned(self, plan: Plan) -> None:
        """Begin from what a plan foretells; what was learned under another one is forgotten."""
        rounds = [
            site.seconds_per_step * site.steps_per_round + site.transfer_s for site in plan.sites
        ]
        self._spread.foretell(max(rounds) - min(rounds), max(rounds) / 16)
        self._pace.foretell(max(rounds), 0.0)

    def posted(self, base: int, now_s: float, *, live: bool) -> None:
        """A post that stands on `base` was heard. Nothing is learned from what is not `live`:
        heard while catching up, it came at another time."""
        round = base + 1
        if round > self._round:
            self._last_s = now_s
            if round not in self._first_s:
                self._first_s[round] = now_s
                if live and self._agreed_s is not None:
                    self._pace.learn(min(now_s - self._agreed_s, 2 * self._pace.enough_s))
        elif live and round in self._first_s:  # too late for its round: so long would have done
            self._learn_spread(now_s - self._first_s[round])

    def committed(self, round: int, now_s: float, *, complete: bool, live: bool) -> None:
        """A round was agreed; `complete`: with all that were waited for."""
        if live and complete and round in self._first_s:
            self._learn_spread(self._last_s - self._first_s[round])
        self._first_s.pop(round - REMEMBERED, None)
        self._round = round
        self._agreed_s = now_s if live else None

    def _learn_spread(self, spread_s: float) -> None:
        self._spread.learn(min(spread_s, 2 * self.seconds))
