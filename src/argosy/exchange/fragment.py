"""One fragment's rounds and posts, and why a post or a commit would not count. No writers here."""

from collections.abc import Iterator
from dataclasses import dataclass

from argosy.core.records import Commit, Contribution


@dataclass(slots=True)
class Post:
    """A counting contribution and what became of it."""

    seq: int
    site: str
    body: Contribution
    named: int | None = None  # the round that named it
    expired: int | None = None  # the round with which it expired

    @property
    def open(self) -> bool:
        return self.named is None and self.expired is None


class Fragment:
    """Rounds count from 1; round 0 is the initial model. A post with base b counts in the rounds
    b + 1 to b + S (the plan's staleness): then it expires, whether the commit lists it or not,
    since a post may land between what a controller has read and its commit."""

    def __init__(self, commits: list[tuple[int, Commit]]) -> None:
        self.commits = commits  # (seq, commit), the counting ones
        self.posts: dict[str, list[Post]] = {}  # per site, n counts from 1

    @property
    def round(self) -> int:
        return len(self.commits)

    @property
    def tokens(self) -> int:
        return self.commits[-1][1].tokens if self.commits else 0

    @property
    def last(self) -> bool:
        return bool(self.commits) and self.commits[-1][1].last

    def newest_n(self, site: str) -> int:
        return len(self.posts.get(site, ()))

    def post(self, site: str, n: int) -> Post | None:
        posts = self.posts.get(site, [])
        return posts[n - 1] if 1 <= n <= len(posts) else None

    def open_posts(self) -> list[Post]:
        """In order of seq. A site has one at most, its newest."""
        newest = (posts[-1] for posts in self.posts.values())
        return sorted((post for post in newest if post.open), key=lambda post: post.seq)

    def flaws_of_post(self, site: str, body: Contribution, staleness: int) -> Iterator[str]:
        """Why a contribution would not count, the first reason first."""
        newest = self.post(site, self.newest_n(site))
        if self.last:
            yield "after the last round"
        if body.n != self.newest_n(site) + 1:
            yield f"{site} posts {body.n} where {self.newest_n(site) + 1} is next"
        if newest is not None and newest.open:
            yield f"{site} has a post outstanding"
        if body.tokens < 1 or body.steps < 1:
            yield "holds no step"
        if body.base > self.round:
            yield f"stands on round {body.base}, which is not agreed yet"
        if self.too_old(body, self.round + 1, staleness):
            yield f"stands on round {body.base}, more than {staleness} rounds ago"

    def flaws_of_commit(self, commit: Commit, staleness: int) -> Iterator[str]:
        if self.last:
            yield "after the last round"
        if commit.round <= self.round:
            yield f"round {commit.round} is agreed already"
        if commit.round != self.round + 1:
            yield f"round {commit.round} where {self.round + 1} is next"
        if not commit.members:
            yield "names nobody"
        sites = [one.site for one in (*commit.members, *commit.expired)]
        if len(set(sites)) < len(sites):
            yield "names a site twice"
        yield from self._flaws_of_members(commit, staleness)
        if commit.tokens != self.tokens + sum(member.tokens for member in commit.members):
            yield f"counts {commit.tokens} tokens, which is not the sum"

    def _flaws_of_members(self, commit: Commit, staleness: int) -> Iterator[str]:
        for one in (*commit.members, *commit.expired):
            post = self.post(one.site, one.n)
            if post is None:
                yield f"{one.site} has not posted {one.n}"
            elif post.named is not None:
                yield f"{one.site}'s post {one.n} was named in round {post.named}"
            elif post.expired is not None:
                yield f"{one.site}'s post {one.n} expired with round {post.expired}"
        for member in commit.members:
            post = self.post(member.site, member.n)
            assert post is not None
            if self.too_old(post.body, commit.round, staleness):
                yield f"{member.site}'s post {member.n} is more than {staleness} rounds old"
            if (member.tokens, member.steps) != (post.body.tokens, post.body.steps):
                yield f"{member.site}'s post {member.n} has other tokens or steps"

    def take_post(self, post: Post) -> None:
        self.posts.setdefault(post.site, []).append(post)

    def take_commit(self, seq: int, commit: Commit, staleness: int) -> list[Post]:
        """Fold a counting commit and return the posts that it settles: named or expired."""
        open_posts = self.open_posts()
        named = {member.site for member in commit.members}
        expired = {one.site for one in commit.expired}
        for post in open_posts:
            if post.site in named:
                post.named = commit.round
            elif post.site in expired or self.too_old(post.body, commit.round + 1, staleness):
                post.expired = commit.round
        self.commits.append((seq, commit))
        return [post for post in open_posts if not post.open]

    @staticmethod
    def too_old(body: Contribution, round: int, staleness: int) -> bool:
        return round - body.base > staleness
