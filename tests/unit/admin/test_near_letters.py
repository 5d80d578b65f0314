"""Filters that miss a topic by one letter: what is a slip of the pen, and what is another thing with a similar name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iot_mqtt.admin.why.near import nearest
from iot_mqtt.admin.why.resource import findings
from iot_mqtt.values import Subscription
from tests.unit.admin.test_why import WELL

EXTRUDER = "kiln/1/extruder"


@pytest.mark.parametrize(
    ("filter", "topic", "instead"),
    [
        ("kiln/1/extrder", EXTRUDER, EXTRUDER),
        ("kiln/1/exttruder", EXTRUDER, EXTRUDER),
        ("kiln/1/extruser", EXTRUDER, EXTRUDER),
        ("kiln/1/exrtuder", EXTRUDER, EXTRUDER),
        ("kilm/1/#", EXTRUDER, "kiln/1/#"),
        ("kilm/#", EXTRUDER, "kiln/#"),
        ("kilm/#", "kiln", "kiln/#"),
        ("kilm/+/extruder", EXTRUDER, "kiln/+/extruder"),
        ("$share/g/kilm/#", EXTRUDER, "kiln/#"),
        ("extrder", "extruder", "extruder"),
        ("presss-7/state", "press-7/state", "press-7/state"),
        ("kiln/1/3xtruder", EXTRUDER, EXTRUDER),
    ],
)
def test_one_letter_is_a_likely_mistake(filter: str, topic: str, instead: str) -> None:
    """Too many, too few, another one, or two that changed places; and the page of the client has it."""
    found = nearest(["far/away/from/it/all", filter], topic, certain=True)
    assert found is not None
    assert (found.filter, found.instead) == (filter, instead)
    assert "one letter" in found.difference
    wanted = replace(WELL, subscriptions=(Subscription(filter, 1),), unwanted=(topic,))
    assert findings(wanted)[0].code == "near_miss"


@pytest.mark.parametrize(
    ("filter", "topic"),
    [
        ("hall/line1/state", "hall/line2/state"),
        ("hall/line1/#", "hall/line12/state"),
        ("hall/1000/state", "hall/2000/state"),
        ("hall/pump-a/state", "hall/pump-b/state"),
        ("hall/lineA/state", "hall/lineB/state"),
        ("hall/out/state", "hall/cut/state"),
        ("hall/a1f3/state", "hall/a1e3/state"),
        ("hall/extrdar/state", "hall/extruder/state"),
        ("kilm/extrder", "kiln/extruder"),
    ],
)
def test_what_has_a_similar_name_is_no_mistake(filter: str, topic: str) -> None:
    """Numbers and letters that count things, short names, and two letters."""
    assert nearest([filter], topic, certain=True) is None


def test_a_letter_that_looks_like_another_one_is_written_out() -> None:
    """Of another alphabet; letters of words that are theirs are not."""
    for letter in ("\u0430", "\u0391"):
        found = nearest([f"kiln/1/m{letter}chine"], "kiln/1/machine", certain=True)
        assert found is not None
        assert f"'m\\u{ord(letter):04x}chine' there, and 'machine' in the topic" in found.difference
    found = nearest(["halle/kühlun"], "halle/kühlung", certain=True)
    assert found is not None
    assert "'kühlun' there, and 'kühlung'" in found.difference
    found = nearest(["цех/насс"], "цех/насос", certain=True)
    assert found is not None
    assert "'насс' there, and 'насос'" in found.difference
