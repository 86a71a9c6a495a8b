"""What can stand in a logbook: one frozen dataclass per kind, and the envelope they travel in."""

from dataclasses import dataclass, field

from argosy.core.plan import Plan

CONTROLLER = "controller"  # the site name under which the controller and its helpers write


@dataclass(frozen=True, kw_only=True, slots=True)
class RunBegun:
    """The first record: what this run is. The texts are the files as the user wrote them."""

    run: str  # UUIDv7
    name: str
    argosy: str  # version
    job: str  # job.yaml
    fleet: str  # fleet.yaml
    authority: str  # the run's own certificate authority, PEM


@dataclass(frozen=True, kw_only=True, slots=True)
class Lead:
    """A controller takes the lead. A commit under a lower term than the highest lead is void."""

    term: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """Who may write: one host, its site and country, and the certificate with its public key."""

    site: str
    host: str
    country: str
    certificate: str  # PEM


@dataclass(frozen=True, kw_only=True, slots=True)
class Roster:
    seats: tuple[Seat, ...]
    torch: str  # the one torch version of the run; "" until the first host has told


@dataclass(frozen=True, kw_only=True, slots=True)
class Crew:
    """Which hosts train one site together, in rank order. The first leads: it keeps the store."""

    site: str
    epoch: int
    hosts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    plan: Plan
    reason: str  # "first plan", or why it was redone


@dataclass(frozen=True, kw_only=True, slots=True)
class HostStarted:
    """A host takes up work. Its incarnation is in the envelope; older incarnations are fenced."""

    address: str
    store_port: int  # where this host would keep its site's store; 0 if it never leads
    torch: str
    python: str
    argosy: str
    clock_offset_ms: int  # host clock minus server clock
    resumed_tokens: int  # this site's tokens that the state it starts from contains


@dataclass(frozen=True, kw_only=True, slots=True)
class HostEvent:
    """Something a person should see: what happened to which host, in plain words."""

    what: (
        str  # lost | returned | regroup | nan | rollback | clock | disk | checkpoint | fault | ...
    )
    site: str
    host: str  # "" = the whole site
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """A host opened a source, by which rule."""

    source: str
    purpose: str  # train | evaluate
    files: int
    bytes: int
    digest: str  # of the files as read, sha256 over their digests in order
    rule: str  # the verdict's reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """A stretch of one parameter vector. Codec blocks restart at `start`."""

    parameter: str  # "*" = all parameters, flattened in the order of the parameter table
    start: int
    stop: int
    blob: str
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Contribution:
    """A site's difference since the agreed model it stands on. Posted once, named once at most."""

    fragment: int
    n: int  # this site's own number, counting from 1
    base: int  # the last round this site had applied when it posted
    tokens: int  # trained into this difference
    steps: int
    trained: int  # this site's tokens ever trained, this post's included
    codec: str
    form: str  # a law.Form
    rule: str  # the verdict that let it go
    cursor: str  # data position, canonical JSON
    incarnation: int
    shards: tuple[Shard, ...]
    final: bool = False  # posted knowing of the drain: this site posts nothing after it


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    site: str
    n: int
    tokens: int
    steps: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Expired:
    site: str
    n: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """The agreement of one round: exactly these contributions, in this order."""

    fragment: int
    round: int  # counts from 1
    term: int
    plan: int
    members: tuple[Member, ...]
    expired: tuple[Expired, ...]
    tokens: int  # committed in all rounds up to and including this one
    last: bool  # the drain round: nothing is posted after it
    head_seq: int  # the chain head the controller had read and signs
    head_chain: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Drain:
    """Every site posts what it has now, as `final`; then comes the last commit."""

    term: int
    reason: str  # done | stopped | money | hours


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpointed:
    """The agreed model after `round`, as a blob (safetensors: model, velocity, in fp32)."""

    round: int
    at_seq: int  # the commit's seq; 0 for the initial model
    blob: str
    bytes: int
    digest: str  # of the agreed model, as in Digest
    parameters: int
    table: str  # parameter names, shapes and order: canonical JSON
    last_n: tuple[Expired, ...] = ()  # per site: the newest contribution folded in


@dataclass(frozen=True, kw_only=True, slots=True)
class Digest:
    """What a site holds as the agreed model after `round`: SHA-256 over fixed pieces of 1 Mi."""

    fragment: int
    round: int
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How training goes at one site; metrics, no data."""

    round: int
    step: int
    trained: int  # this site's tokens ever trained
    loss: float  # nats per token, mean since the last Progress
    tokens_per_s: float
    compute_s: float  # since the last Progress
    encode_s: float
    apply_s: float
    wait_s: float
    longest_gap_s: float  # between the ends of two successive steps


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """The agreed model on what a source holds back."""

    round: int
    source: str
    loss: float  # nats per token
    tokens: int
    bits_per_byte: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The controller closes the logbook under a signed head."""

    outcome: str  # done | stopped | money | hours
    rounds: int
    tokens: int
    head_seq: int
    head_chain: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Unknown:
    """A kind from a newer minor version: kept, chained, not understood."""

    kind: str
    body: str  # canonical JSON


Body = (
    RunBegun | Lead | Roster | Crew | Planned | HostStarted | HostEvent | Access | Contribution
    | Commit | Drain | Checkpointed | Digest | Progress | Evaluation | Ended | Unknown
)  # fmt: skip

KINDS: dict[str, type[Body]] = {
    "run": RunBegun,
    "lead": Lead,
    "roster": Roster,
    "crew": Crew,
    "plan": Planned,
    "start": HostStarted,
    "event": HostEvent,
    "access": Access,
    "contribution": Contribution,
    "commit": Commit,
    "drain": Drain,
    "checkpoint": Checkpointed,
    "digest": Digest,
    "progress": Progress,
    "evaluation": Evaluation,
    "end": Ended,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Writer:
    """Whose hand: a host of a site, in one life of that host."""

    site: str
    host: str
    incarnation: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A record as read: its place in the order, its chain value, and what was signed."""

    seq: int  # counts from 1
    chain: str  # SHA-256(chain of seq - 1 || raw)
    writer: Writer
    counter: int  # the writer's own, counts from 1 in each incarnation
    at_ms: int  # the writer's clock, for people; never for order
    kind: str
    body: Body
    raw: bytes = field(repr=False, default=b"")  # canonical bytes, signature included
