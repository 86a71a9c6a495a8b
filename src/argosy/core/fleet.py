"""The fleet: sites, hosts and links, with what is known of them."""

from dataclasses import dataclass, field

LOGBOOK = "logbook"  # the far end of every site's one link


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """One machine. What was not declared or measured is None."""

    name: str
    address: str = "127.0.0.1"
    cores: int = 1
    memory_gb: float | None = None
    gpus: int = 0
    price_per_hour: float = 0.0
    spot: bool = False
    tokens_per_s: float | None = None  # measured by a calibration run of the job's own model
    where: str = field(default="", compare=False)  # file:line, so that a message can name it


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """Hosts with fast links among them, in one jurisdiction; trains synchronously inside."""

    name: str
    country: str  # ISO 3166-1 alpha-2
    hosts: tuple[Host, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """What joins a site to the logbook."""

    a: str
    b: str = LOGBOOK
    mbit_per_s: float
    rtt_ms: float
    jitter_ms: float = 0.0
    price_per_gb: float = 0.0
    measured: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """Sites, their links, and the country where controller and logbook stand."""

    home: str  # country of controller and logbook
    sites: tuple[Site, ...]
    links: tuple[Link, ...]
    currency: str = "USD"
    faults: tuple[str, ...] = ()  # plugs that the lab pulls; ignored by other providers, and said

    def site(self, name: str) -> Site:
        return next(site for site in self.sites if site.name == name)

    def link(self, site: str) -> Link:
        return next(link for link in self.links if link.a == site)

    def site_of(self, host: str) -> Site:
        return next(site for site in self.sites if any(h.name == host for h in site.hosts))

    def host(self, name: str) -> Host:
        return next(h for site in self.sites for h in site.hosts if h.name == name)
