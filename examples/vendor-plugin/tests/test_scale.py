"""ACME's scales: the codec kit, and what depends on the configuration."""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from acme_scale.codec import AcmeScale, Settings

from iot_mqtt.sdk import Host, Readings, Send
from iot_mqtt.sdk.config import BadConfig, config_from
from iot_mqtt.sdk.kit import CodecTests


class TestAcmeScale(CodecTests):
    """All checks of the kit, one test each."""

    codec = AcmeScale


@pytest.fixture
def counted() -> Counter[str]:
    """What the codec counts."""
    return Counter()


def scale(config: Settings, counted: Counter[str]) -> AcmeScale:
    """A codec as a new connection gets it, logged in."""

    def count(name: str, amount: int) -> None:
        counted[name] += amount

    codec = AcmeScale(Host(config, peer="192.0.2.1:1", log=logging.getLogger(), count=count, now=lambda: 0))
    list(codec.decode(b"\x02ID t1"))
    return codec


@pytest.mark.parametrize(("unit", "weight"), [("kg", 0.5), ("g", 500.0), ("lb", 1.102311)])
def test_weights_are_told_in_the_unit_of_the_configuration(unit: str, weight: float, counted: Counter[str]) -> None:
    """Whatever the scale is set to."""
    (event,) = scale(config_from(Settings, {"unit": unit}), counted).decode(b"\x02S 01 0.5 kg ST")
    assert event == Readings("01", {"weight": weight, "stable": True, "unit": unit})


def test_overloads_are_counted(counted: Counter[str]) -> None:
    """As ``iot_mqtt_codec_events_total{event="overloads"}``."""
    list(scale(Settings(), counted).decode(b"\x02S 01 9999 kg OL"))
    assert counted == {"overloads": 1}


@pytest.mark.parametrize(("poll", "asked"), [(True, [Send(b"\x02Q\x03")]), (False, [])])
def test_a_silent_terminal_is_asked(poll: bool, asked: list[Send], counted: Counter[str]) -> None:
    """Unless the configuration says no."""
    assert list(scale(Settings(poll=poll), counted).idle()) == asked


def test_an_unknown_unit_is_refused() -> None:
    """Before any connection is there."""
    with pytest.raises(BadConfig, match="unit: must be one of kg, g, lb, not 'stone'"):
        config_from(Settings, {"unit": "stone"})
