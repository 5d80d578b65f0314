"""The rules of one list, found by what is asked: the same answers as ``rules.decide``, without reading every rule.

::

    rules of a list ─▶ trie of their filters ─▶ the few that can speak of a topic ─▶ asked in the order of the list
                   └─▶ prefixes of patterns  ─▶ the few that can speak of a name  ─┘

The trie only leaves rules out that cannot speak of what is asked, whatever the names of the client are: ``%c`` and
``%u`` are a level of any text in it, and in a *deny* rule all levels from there on as well. What a rule says is
always decided by the rule itself. An index has nothing of one client, so clients with the same rules share it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from iot_mqtt.auth.names import NameRule, Prefixes
from iot_mqtt.auth.rules import OF_FILTERS, PLACEHOLDERS, AnyRule, Rule, plain_filter
from iot_mqtt.ports.access import ALL_FORMS, OF_NAMES, Action, Principal


class _Node:
    """One level of the filters. Rules are named by their places in the list."""

    __slots__ = ("children", "any", "here", "below")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        #: Of ``+`` and placeholders.
        self.any: _Node | None = None
        #: Rules whose filter ends here.
        self.here: list[int] = []
        #: Rules whose filter goes on with ``#``: it takes this level and all below.
        self.below: list[int] = []

    def next(self, level: str) -> _Node:
        """The node of a filter's next level, made if there is none."""
        if level == "+" or level in PLACEHOLDERS:
            self.any = self.any or _Node()
            return self.any
        node = self.children.get(level)
        if node is None:
            node = self.children[level] = _Node()
        return node

    def nodes(self) -> Iterator[_Node]:
        """What is directly below."""
        yield from self.children.values()
        if self.any is not None:
            yield self.any


class Siblings(NamedTuple):
    """Topics that differ in their last level only, where no rule names that level: one verdict for all of them."""

    forms: int
    #: The last levels that some rule names, or may name by a placeholder: topics that end so are others.
    named: tuple[Container[str], ...]


class RuleList:
    """The rules that apply to some clients, in their order. Frozen; what is found by is built when first needed."""

    __slots__ = ("rules", "_root", "_names", "__weakref__")

    def __init__(self, rules: Iterable[AnyRule]) -> None:
        self.rules = tuple(rules)
        self._root: _Node | None = None
        self._names: dict[Action, tuple[Prefixes[int], bool]] | None = None

    def __iter__(self) -> Iterator[AnyRule]:
        return iter(self.rules)

    def deciding(self, who: Principal, action: Action, asked: str, form: int = ALL_FORMS) -> AnyRule | None:
        """The first rule that speaks of it (of PUBLISH: in any of these forms); None if no rule does."""
        if action in OF_NAMES:
            return next((rule for rule in self._of_name(action, asked) if rule.fits(who, asked)), None)
        plain = plain_filter(action, asked)
        for rule in self._in_order(self._of(action, plain)) if plain else ():
            if rule.decides(who, action, plain, form):
                return rule
        return None

    def allows(self, who: Principal, action: Action, asked: str) -> bool:
        """The answer of ``rules.decide``; of PUBLISH: whether it is yes for any form."""
        if action is Action.PUBLISH:
            return self.forms(who, action, asked) != 0
        rule = self.deciding(who, action, asked)
        if rule is None and action in OF_NAMES:
            return not self._enumerates(action)
        return rule is not None and rule.allow

    def forms(self, who: Principal, action: Action, topic: str) -> int:
        """The forms in which a client may publish to a topic; of READ: all, or none."""
        return self._judged(who, action, topic, _on_the_way(self._nodes(), topic.split("/"))) if topic else 0

    def siblings(self, who: Principal, action: Action, topic: str) -> Siblings | None:
        """The verdict on a topic, if it holds for all that end in another level which no rule names; None if it is the
        topic's alone.
        """
        parent, slash, last = topic.rpartition("/")
        if not slash:
            return None
        found: list[int] = []
        nodes = [self._nodes()]
        for level in parent.split("/"):
            nodes = _step(nodes, level, found)
        named: tuple[Container[str], ...] = tuple(node.children for node in nodes if node.children)
        _end(_step(nodes, last, found), found)
        if any("%" in rule.filter for rule in self._in_order(found)):
            named = (*named, (who.client_id, who.owner))
        if any(last in levels for levels in named):
            return None
        return Siblings(self._judged(who, action, topic, found), named)

    def _judged(self, who: Principal, action: Action, topic: str, found: Iterable[int]) -> int:
        left, given = ALL_FORMS, 0
        for rule in self._in_order(found):
            if rule.decides(who, action, topic, left):
                spoken = left & rule.forms if action is Action.PUBLISH else left
                if rule.allow:
                    given |= spoken
                left &= ~spoken
                if not left:
                    break
        return given

    def _of(self, action: Action, asked: str) -> list[int]:
        levels = asked.split("/")
        return (_met if action in OF_FILTERS else _on_the_way)(self._nodes(), levels)

    def _in_order(self, found: Iterable[int]) -> Iterator[Rule]:
        rules = self.rules
        for place in sorted(set(found)):
            rule = rules[place]
            assert isinstance(rule, Rule)
            yield rule

    def _nodes(self) -> _Node:
        if self._root is None:
            self._root = _trie(self.rules)
        return self._root

    def _of_name(self, action: Action, name: str) -> Iterator[NameRule]:
        for place in sorted(self._by_name()[action][0].candidates(name)):
            rule = self.rules[place]
            assert isinstance(rule, NameRule)
            yield rule

    def _enumerates(self, action: Action) -> bool:
        """Whether some rule says which names there are."""
        return self._by_name()[action][1]

    def _by_name(self) -> dict[Action, tuple[Prefixes[int], bool]]:
        if self._names is None:
            self._names = {}
            for action in OF_NAMES:
                of_kind = [
                    (place, rule)
                    for place, rule in enumerate(self.rules)
                    if isinstance(rule, NameRule) and rule.action is action
                ]
                prefixes = Prefixes((rule.pattern, place) for place, rule in of_kind)
                self._names[action] = prefixes, any(rule.allow for _, rule in of_kind)
        return self._names


def _trie(rules: Sequence[AnyRule]) -> _Node:
    root = _Node()
    for place, rule in enumerate(rules):
        if not isinstance(rule, Rule):
            continue
        node = root
        for level in rule.filter.split("/"):
            if level == "#":
                node.below.append(place)
                break
            if level in PLACEHOLDERS and not rule.allow:
                node.below.append(place)
            node = node.next(level)
        else:
            node.here.append(place)
    return root


def _step(nodes: list[_Node], level: str, found: list[int]) -> list[_Node]:
    """From nodes to those of a topic's next level; what takes all below is found on the way."""
    after: list[_Node] = []
    for node in nodes:
        found += node.below
        child = node.children.get(level)
        if child is not None:
            after.append(child)
        if node.any is not None:
            after.append(node.any)
    return after


def _end(nodes: Iterable[_Node], found: list[int]) -> None:
    for node in nodes:
        found += node.below
        found += node.here


def _on_the_way(root: _Node, levels: Sequence[str]) -> list[int]:
    """Rules whose filter can match a topic."""
    found: list[int] = []
    nodes = [root]
    for level in levels:
        nodes = _step(nodes, level, found)
        if not nodes:
            break
    _end(nodes, found)
    return found


def _met(root: _Node, levels: Sequence[str]) -> list[int]:
    """Rules whose filter can have a topic in common with another filter."""
    found: list[int] = []
    nodes = [root]
    for level in levels:
        if level == "#":
            while nodes:
                _end(nodes, found)
                nodes = [below for node in nodes for below in node.nodes()]
            return found
        if level == "+":
            for node in nodes:
                found += node.below
            nodes = [below for node in nodes for below in node.nodes()]
        else:
            nodes = _step(nodes, level, found)
    _end(nodes, found)
    return found
