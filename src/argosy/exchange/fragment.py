"""One fragment's rounds and posts, and why a post or a commit would not count. No writers here."""

from collections.abc import Iterator
from dataclasses import dataclass

from argosy.core.records import Commit, Contribution, Expired, Member


@dataclass(slots=True)
class Post:
    """A counting contribution and what became of it."""

    seq: int
    site: str
    body: Contribution
    until: int  # the last round that may name it: its base + S of the plan under which it landed
    named: int | None = None  # the round that named it
    expired: int | None = None  # the round with which it expired

    @property
    def open(self) -> bool:
        return self.named is None and self.expired is None


class Fragment:
    """Rounds count from 1; round 0 is the initial model.

    A post counts in the S rounds after its base. Then it expires whether the commit lists it or
    not: it may land between what a controller has read and that controller's commit.
    """

    def __init__(self, commits: list[tuple[int, Commit]]) -> None:
        self.commits = commits  # (seq, commit), the counting ones
        self._posts: dict[str, list[Post]] = {}  # per site, n counts from 1

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
        return len(self._posts.get(site, ()))

    def newest(self, site: str) -> Post | None:
        return self.post(site, self.newest_n(site))

    def post(self, site: str, n: int) -> Post | None:
        posts = self._posts.get(site, ())
        return posts[n - 1] if 1 <= n <= len(posts) else None

    def open_posts(self) -> list[Post]:
        """In order of seq. A site has one at most, its newest."""
        newest = (posts[-1] for posts in self._posts.values())
        return sorted((post for post in newest if post.open), key=lambda post: post.seq)

    def flaws_of_post(self, site: str, body: Contribution, staleness: int) -> Iterator[str]:
        """Why a contribution would not count, the first reason first."""
        newest = self.newest(site)
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
        if body.base + staleness <= self.round:
            yield f"stands on round {body.base}, {self.round - body.base} rounds ago"

    def take_post(self, post: Post) -> None:
        self._posts.setdefault(post.site, []).append(post)

    def flaws_of_commit(self, commit: Commit) -> Iterator[str]:
        """Why a commit would not count, the first reason first."""
        if self.last:
            yield "after the last round"
        if commit.round <= self.round:
            yield f"round {commit.round} is agreed already"
        if commit.round > self.round + 1:
            yield f"round {commit.round} where {self.round + 1} is next"
        if not commit.members:
            yield "names nobody"
        sites = [member.site for member in commit.members]
        sites += [expired.site for expired in commit.expired]
        if len(set(sites)) < len(sites):
            yield "names a site twice"
        for expired in commit.expired:
            yield from self._flaws_of_name(expired)
        for member in commit.members:
            yield from self._flaws_of_member(member)
        if commit.tokens != self.tokens + sum(member.tokens for member in commit.members):
            yield f"says {commit.tokens} tokens, which is not the sum"

    def take_commit(self, seq: int, commit: Commit) -> list[Post]:
        """Fold a counting commit and return the posts that it settles: named or expired."""
        open_posts = self.open_posts()
        named = {member.site for member in commit.members}
        expired = {one.site for one in commit.expired}
        for post in open_posts:
            if post.site in named:
                post.named = commit.round
            elif post.site in expired or post.until <= commit.round:
                post.expired = commit.round
        self.commits.append((seq, commit))
        return [post for post in open_posts if not post.open]

    def _flaws_of_name(self, one: Member | Expired) -> Iterator[str]:
        post = self.post(one.site, one.n)
        if post is None:
            yield f"{one.site} has not posted {one.n}"
        elif post.named is not None:
            yield f"{one.site}'s post {one.n} was named in round {post.named}"
        elif post.expired is not None:
            yield f"{one.site}'s post {one.n} expired with round {post.expired}"

    def _flaws_of_member(self, member: Member) -> Iterator[str]:
        yield from self._flaws_of_name(member)
        post = self.post(member.site, member.n)
        said = post and (post.body.tokens, post.body.steps)
        if said != (member.tokens, member.steps):
            yield f"{member.site}'s post {member.n} has other tokens or steps"
