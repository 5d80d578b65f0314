"""Rights of a test's own, without limits on the form of what is published."""

from __future__ import annotations

from iot_mqtt.auth.acl import parse_rules
from iot_mqtt.auth.rights import RulePermissions
from iot_mqtt.ports.access import ALL_FORMS, Action, Permissions, Principal
from tests.unit.auth.allow_all import AllowAll


class AnyForm:
    """Rights that are the same for everybody. What may be published may be at any QoS, retained or not."""

    unrestricted = False
    version = 1

    async def permissions(self, principal: Principal) -> Permissions:
        return self

    def allows(self, action: Action, asked: str) -> bool:
        raise NotImplementedError

    def beside(self, topic: str) -> int:
        return 0

    def forms(self, topic: str) -> int:
        return ALL_FORMS if self.allows(Action.PUBLISH, topic) else 0


class NoPublishing(AnyForm):
    """Nobody may publish."""

    def allows(self, action: Action, asked: str) -> bool:
        return action is not Action.PUBLISH


class Ruled(AllowAll):
    """Rights by rules for everybody."""

    def __init__(self, rules: str) -> None:
        self.rule(rules)

    def rule(self, rules: str) -> None:
        """From now on it is these that are given out."""
        self._rules = parse_rules(f"[all]\n{rules}", "acl")

    async def permissions(self, principal: Principal) -> Permissions:
        return RulePermissions(principal, self._rules.of(principal))
