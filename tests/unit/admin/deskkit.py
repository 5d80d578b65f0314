"""The rules of an uplink without an uplink: answers that tests know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iot_mqtt.uplink.desk import (
    Difference,
    Example,
    ReloadInfo,
    RuleInfo,
    RulesInfo,
    RulesRefused,
    RuleTrial,
    TrialInfo,
)

EXAMPLE = Example("up/a", "c\x1b", 1, '{"t": 90}', "hot", "c")
RULES = RulesInfo(
    items=(
        RuleInfo(1, "up/#", None, "press-*", None, "values.t > 80", 1, "hot", "also", "device", 10, 4),
        RuleInfo(2, "audit/#", None, None, None, None, 0, "iot.readings", "only", "topic", 6, 6),
    ),
    earlier=1,
    names=2,
    turned_away=3,
)
RELOAD = ReloadInfo(
    changed=True,
    rules=2,
    added=('{"filter": "a"}',),
    removed=('{"filter": "b"}',),
    reordered=True,
    waiting=7,
    notes=("so",),
)
TRIAL = TrialInfo(
    messages=9,
    first_at=0.0,
    last_at=60.0,
    rules=(RuleTrial(1, '{"filter": "up/#"}', 8, 5, {"hot": 2, "cold": 3}, (EXAMPLE,)),),
    unmatched=4,
    unmatched_examples=(EXAMPLE,),
    changed=5,
    differences=(Difference("iot.readings", "hot", 5, EXAMPLE),),
    other_keys=2,
    notes=("so",),
)


class FakeDesk:
    """``uplink.desk.UplinkDesk``."""

    def __init__(self) -> None:
        self.refusal: str | None = None
        self.asked: list[object] = []

    def rules(self) -> RulesInfo:
        return RULES

    async def reload(self) -> ReloadInfo:
        if self.refusal is not None:
            raise RulesRefused(self.refusal)
        return RELOAD

    async def test(
        self, rules: Sequence[Mapping[str, object]] | None, messages: int, minutes: float | None
    ) -> TrialInfo:
        if self.refusal is not None:
            raise RulesRefused(self.refusal)
        self.asked.append((rules, messages, minutes))
        return TRIAL
