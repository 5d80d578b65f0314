"""What captures have, as the API shows it while they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.callers import Caller, Role
from iot_mqtt.admin.capture_resources import SHOWN, CaptureResources
from iot_mqtt.admin.errors import ApiError
from tests.unit.devices.link.linkkit import World


class Api:
    """The resource itself, called by somebody with a role."""

    def __init__(self, folder: Path) -> None:
        self.world = World(captures=folder)
        (self._frames,) = [
            one.handler for one in CaptureResources(self.world.captures).routes if one.path == "captures/{id}/frames"
        ]

    def frames(self, id: str, role: Role, place: str = "0") -> dict[str, object]:
        found = self._frames(Call({"id": id}, {"from_byte": place}, caller=Caller("eve", role)))
        assert isinstance(found, dict)
        return found


def test_frames_are_shown_in_hex_beside_what_the_codec_made_of_them(tmp_path: Path) -> None:
    """Of one gateway for operators; a frame that is long is cut."""
    api = Api(tmp_path)
    begun = api.world.captures.start("lines", "line-1", 60, 1 << 20)
    gateway = api.world.gateway("line-1")
    gateway.say('r press {"t": 1} 7', "beat " + "x" * SHOWN)
    found = api.frames(begun.id, Role.OPERATOR)
    items = found["items"]
    assert isinstance(items, list)
    frames = [one for one in items if one["kind"] == "up"]
    assert bytes.fromhex("".join(one["hex"] for one in frames)).startswith(b'r press {"t": 1} 7')
    assert frames[-1]["cut"] and len(frames[-1]["hex"]) == 2 * SHOWN
    assert "readings" in [one["event"]["event"] for one in items if one["event"]]
    assert api.frames(begun.id, Role.OPERATOR, str(found["next"]))["items"] == []


def test_logins_of_all_gateways_are_for_admins(tmp_path: Path) -> None:
    """A capture of a codec has their passwords in it."""
    api = Api(tmp_path)
    begun = api.world.captures.start("lines", None, 60, 1 << 20)
    api.world.gateway("line-1", "user")
    with pytest.raises(ApiError, match="for admins"):
        api.frames(begun.id, Role.OPERATOR)
    assert api.frames(begun.id, Role.ADMIN)["items"]


@pytest.mark.parametrize(("id", "place"), [("nothing", "0"), ("", "-1"), ("", "x"), ("", "1" * 11)])
def test_what_is_not_there_is_an_error(tmp_path: Path, id: str, place: str) -> None:
    """A capture, or a place in it."""
    api = Api(tmp_path)
    begun = api.world.captures.start("lines", "line-1", 60, 1 << 20)
    with pytest.raises(ApiError):
        api.frames(id or begun.id, Role.ADMIN, place)
