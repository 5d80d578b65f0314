"""``ctl topics``: tables of the busiest topics and of a level of the tree."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.admin.topic_resources import Branch, BusyTopic, TopicResources
from tests.unit.admin.adminkit import FakeView, make_browser
from tests.unit.app.ctl.ctlkit import Ctl


class Known:
    """A desk that counts already."""

    def seconds(self) -> float:
        return 10.0

    def busiest(self, by: str, limit: int) -> list[BusyTopic]:
        return [BusyTopic(f"by/{by}", 12.5, 2_000.0, 0.0, ("press-7", "gw"), 3, elsewhere=False)][:limit]

    def below(self, prefix: str, after: str | None, limit: int) -> list[Branch]:
        names = [f"{prefix}{number:04}" for number in range(1500)]
        return [Branch(name, 1, leaf=True) for name in names if after is None or name > after][:limit]

    def containing(self, words: Any, after: str | None, limit: int) -> list[Branch]:
        return [Branch("/".join(words), 1, leaf=True, retained=True)]

    def last(self, topic: str) -> None:
        return None


@pytest.fixture
def ctl(monkeypatch: pytest.MonkeyPatch) -> Ctl:
    return Ctl(monkeypatch, make_browser(FakeView(), further=(TopicResources(Known()),)))


def test_the_busiest_are_a_table(ctl: Ctl) -> None:
    head, line = ctl.lines("topics", "top", "--by", "bytes")
    assert head.split() == ["TOPIC", "MESSAGES/S", "BYTES/S", "RECEIVERS", "PUBLISHERS"]
    assert line.split()[:2] == ["by/bytes", "12.5"]
    assert line.endswith("press-7, gw")
    assert '"publishers"' in "".join(ctl.lines("topics", "top", "--json"))


def test_a_level_goes_on_over_pages_and_words_are_found(ctl: Ctl) -> None:
    assert len(ctl.lines("topics", "list", "hall")) == 1501
    assert ctl.lines("topics", "list", "hall")[1].startswith("hall/0000")
    assert ctl.lines("topics", "list", "--contains", "a b")[1].split()[0] == "a/b"
    assert ctl.run("topics", "list", "#").exit_code == 1
