"""Whether a version's data may stand where another's stood, and methods that were meant to be hooks."""

from __future__ import annotations

import pytest

from iot_mqtt.sdk import Codec, Schema, Tag
from iot_mqtt.sdk.fitting import misspelt
from iot_mqtt.sdk.schema import conflict

BEFORE = Schema(3, {"t": Tag("float", "°C"), "n": Tag("int")}, open=False)


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (BEFORE, None),
        (Schema(3, {"t": Tag("float", "°C", "in words"), "n": Tag("int")}, open=False), None),
        (Schema(4, {"t": Tag("float", "°C"), "n": Tag("int"), "more": Tag("bool")}, open=False), None),
        (Schema(4, {"t": Tag("float", "°F")}, open=False), None),
        (Schema(4, {"t": Tag("string", "°C"), "n": Tag("int")}, open=False), "'t' was float and would be string"),
        (Schema(3, {"t": Tag("float", "°F"), "n": Tag("int")}, open=False), "raise Schema.version"),
        (Schema(3, {"t": Tag("float", "°C")}, open=False), "raise Schema.version"),
        (Schema(3, BEFORE.tags), "raise Schema.version"),
        (Schema(2, BEFORE.tags, open=False), "raise Schema.version"),
    ],
)
def test_a_change_adds_tags_under_a_greater_number(after: Schema, why: str | None) -> None:
    """And never another type."""
    found = conflict(BEFORE, after)
    assert found is None if why is None else why in (found or "")


@pytest.mark.parametrize(
    ("name", "hook"),
    [("saef", "safe"), ("Safe", "safe"), ("ilde", "idle"), ("decoed", "decode"), ("value", ""), ("save", "")],
)
def test_a_method_that_is_nearly_a_hook_is_found(name: str, hook: str) -> None:
    """With two letters changed about, too; other words are the codec's own."""
    codec = type("Misspelt", (Codec,), {name: lambda self: b""})
    found = list(misspelt(codec))
    assert (f"did you mean `{hook}`?" in found[0]) if hook else not found
