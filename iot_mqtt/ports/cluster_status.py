"""How a cluster looks from one of its nodes: what there is to show an operator and to count.

Whatever has these attributes will do; ``cluster.status`` has the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class PeerFacts(Protocol):
    """One other node."""

    @property
    def number(self) -> int: ...

    @property
    def node_id(self) -> str: ...

    @property
    def boot(self) -> int: ...

    @property
    def version(self) -> str: ...

    @property
    def member(self) -> bool:
        """It is in the registry's list."""
        ...

    @property
    def up(self) -> bool:
        """It is heard."""
        ...

    @property
    def hears_us(self) -> bool: ...

    @property
    def draining(self) -> bool: ...

    @property
    def load(self) -> float: ...

    @property
    def clients(self) -> int: ...

    @property
    def unconfirmed(self) -> int:
        """Bytes that were sent to it and are not confirmed."""
        ...

    @property
    def crowded(self) -> bool: ...

    @property
    def routes(self) -> int:
        """Filters that it wants."""
        ...

    @property
    def routes_agree(self) -> bool: ...

    @property
    def acts_on(self) -> int:
        """The version of our filters that it acts on, -1: none."""
        ...

    @property
    def datagrams_sent(self) -> int: ...

    @property
    def items_sent(self) -> int: ...

    @property
    def bytes_sent(self) -> int: ...

    @property
    def datagrams_received(self) -> int: ...

    @property
    def items_received(self) -> int: ...

    @property
    def bytes_received(self) -> int: ...

    @property
    def repairs_asked(self) -> int: ...

    @property
    def repairs_served(self) -> int: ...

    @property
    def gaps(self) -> int: ...

    @property
    def items_missed(self) -> int: ...


class ClusterFacts(Protocol):
    """All of it."""

    @property
    def node_id(self) -> str: ...

    @property
    def number(self) -> int: ...

    @property
    def boot(self) -> int: ...

    @property
    def over(self) -> str | None:
        """Why this node is not one of the cluster any more."""
        ...

    @property
    def copies_missing(self) -> int | None:
        """Parts of the grid that have fewer copies than they should; None: not known now."""
        ...

    @property
    def registry(self) -> str: ...

    @property
    def registry_trouble(self) -> str | None: ...

    @property
    def routes(self) -> int: ...

    @property
    def routes_version(self) -> int: ...

    @property
    def draining(self) -> bool: ...

    @property
    def peers(self) -> Sequence[PeerFacts]: ...

    @property
    def known_late(self) -> int:
        """Subscriptions that were confirmed although some peer had not said that it acts on them."""
        ...

    @property
    def claims_granted(self) -> Mapping[str, int]: ...

    @property
    def claims_refused(self) -> Mapping[str, int]: ...

    @property
    def released(self) -> int: ...

    @property
    def releases_refused(self) -> int: ...

    @property
    def fences(self) -> int: ...

    @property
    def dead(self) -> Mapping[int, int]:
        """Dead nodes that somebody still has to clean up after: number → boot."""
        ...

    @property
    def adoptions(self) -> int: ...

    @property
    def adopted_clients(self) -> int: ...

    @property
    def adoption_failures(self) -> int: ...

    @property
    def unreadable_channels(self) -> int: ...

    @property
    def incompatible(self) -> Sequence[str]:
        """Members that speak no version of the links that this node speaks."""
        ...

    @property
    def strangers(self) -> int:
        """Datagrams from nobody on the list."""
        ...
