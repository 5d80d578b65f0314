"""Whom rules are about: the sections of a text of rules, and the lists that apply to a client.

Clients to whom the same sections apply share one list, and the index that its rules are found by.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import NamedTuple
from weakref import WeakValueDictionary

from iot_mqtt.auth.names import Prefixes, checked_pattern, is_called
from iot_mqtt.auth.rule_index import RuleList
from iot_mqtt.auth.rules import AnyRule
from iot_mqtt.ports.access import Principal
from iot_mqtt.ports.addresses import Address, parsed

#: The headers that there are, for who wrote another one.
HEADERS = "[all], [anonymous], [user NAME], [group NAME], [client PATTERN], [address NETWORK]"


class Chosen(NamedTuple):
    """A section that applies to a client."""

    kind: str
    name: str
    #: It speaks of something that is not known of the client: what it denies applies, what it allows does not.
    denies: bool = False


#: Of each source, and what a client brought.
_Chosen = tuple[tuple[tuple[Chosen, ...], ...], tuple[str, ...]]


class Rules:
    """All rules of a text, by whom they are about."""

    __slots__ = ("_sections", "_patterns", "_networks", "_lists")

    def __init__(self) -> None:
        self._sections: dict[tuple[str, str], list[AnyRule]] = {}
        self._patterns: Prefixes[str] | None = None
        #: By (IP version, length of the prefix): the first address of a network → what the section is called.
        self._networks: dict[tuple[int, int], dict[int, str]] = {}
        self._lists: WeakValueDictionary[tuple[Chosen, ...], RuleList] = WeakValueDictionary()

    def section(self, header: str) -> list[AnyRule]:
        """The rules below ``[header]``; ``ValueError`` if there can be no such section."""
        word, _, name = header.partition(" ")
        name = name.strip()
        match word, name:
            case (("all" | "anonymous"), ""):
                pass
            case (("user" | "group"), some) if some:
                pass
            case "client", pattern if pattern:
                checked_pattern(pattern)
                self._patterns = None
            case "address", network if network:
                name = self._network(network)
            case _:
                raise ValueError(f"[{header}] is none of {HEADERS}")
        return self._sections.setdefault((word, name), [])

    @property
    def count(self) -> int:
        """How many rules there are."""
        return sum(map(len, self._sections.values()))

    @property
    def sections(self) -> int:
        """How many sections there are."""
        return len(self._sections)

    def _network(self, text: str) -> str:
        network = ipaddress.ip_network(text)
        self._networks.setdefault((network.version, network.prefixlen), {})[int(network.network_address)] = str(network)
        return str(network)

    def chosen(self, who: Principal) -> tuple[Chosen, ...]:
        """What applies to a client."""
        found = [Chosen("all", "")]
        if who.anonymous or who.username is None:
            found.append(Chosen("anonymous", ""))
        else:
            found.append(Chosen("user", who.username))
        found += (Chosen("group", name) for name in sorted(who.groups))
        found += self._called(who)
        if self._networks:
            address = parsed(who.address)
            if address is None:
                found += (Chosen(kind, name, denies=True) for kind, name in self._sections if kind == "address")
            else:
                found += (Chosen("address", network) for network in self._around(address))
        return tuple(one for one in found if one[:2] in self._sections)

    def _called(self, who: Principal) -> list[Chosen]:
        if self._patterns is None:
            patterns = [name for kind, name in self._sections if kind == "client"]
            self._patterns = Prefixes((pattern, pattern) for pattern in patterns)
        return sorted(
            Chosen("client", pattern, denies="%u" in pattern and not who.owner)
            for pattern in self._patterns.candidates(who.client_id)
            if is_called(who.client_id, pattern, who)
        )

    def _around(self, address: Address) -> Iterable[str]:
        number, bits = int(address), address.max_prefixlen
        for (version, length), networks in self._networks.items():
            if version == address.version:
                network = networks.get(number >> (bits - length) << (bits - length))
                if network is not None:
                    yield network

    def of(self, who: Principal) -> RuleList:
        """The rules that apply to a client, in the order of the text."""
        return self.listed(self.chosen(who))

    def listed(self, chosen: tuple[Chosen, ...]) -> RuleList:
        """The rules of some sections, in the order of the text; who has the same shares them."""
        known = self._lists.get(chosen)
        if known is None:
            rules: list[AnyRule] = []
            for kind, name, denies in chosen:
                rules += (rule for rule in self._sections[kind, name] if not (denies and rule.allow))
            known = self._lists[chosen] = RuleList(sorted(rules, key=lambda rule: rule.line))
        return known


class Book:
    """Rules of several sources, one behind the other. Frozen: a change of a source makes another book."""

    __slots__ = ("sources", "_parse", "_lists")

    def __init__(self, sources: Iterable[Rules], brought: Callable[[tuple[str, ...]], Iterable[AnyRule]]) -> None:
        """``brought`` reads rules that a client brought: what they deny is asked first, what they allow last."""
        self.sources = tuple(sources)
        self._parse = brought
        self._lists: WeakValueDictionary[_Chosen, RuleList] = WeakValueDictionary()

    def of(self, who: Principal) -> RuleList:
        """The rules that apply to a client; ``ValueError`` if those that it brought are none."""
        sections = tuple(source.chosen(who) for source in self.sources)
        chosen = sections, who.brought_rules
        known = self._lists.get(chosen)
        if known is None:
            lists = [source.listed(own) for source, own in zip(self.sources, sections, strict=True)]
            if len(lists) == 1 and not who.brought_rules:
                known = lists[0]
            else:
                brought = list(self._parse(who.brought_rules))
                between = [rule for one in lists for rule in one]
                known = RuleList(
                    [rule for rule in brought if not rule.allow] + between + [rule for rule in brought if rule.allow]
                )
            self._lists[chosen] = known
        return known
