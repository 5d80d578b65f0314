"""Any name is a part of a path that its reader finds again, whatever browsers do with dots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast
from urllib.parse import urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.admin.call import path_segments
from iot_mqtt.admin.paths import path_of
from iot_mqtt.admin.resources import Resources
from iot_mqtt.auth.user_desk import Changes, UserDesk
from iot_mqtt.grid.directory import GridDirectory
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.directory import USERS
from tests.unit.admin.adminkit import CLIENT, SESSION, FakeView, make_browser
from tests.unit.auth.authkit import outcome, start

ODD = [".", "..", "~.", "~..", "~~.", "~", "...", "~a", ".a", "a/b", "..%2f", "%2e", "why", "packets", "backlog"]


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_arrives(name: str) -> None:
    """Also behind what takes dots out of addresses, as browsers do."""
    address = urljoin("http://node/", "/api/v1/" + path_of(["clients", name, "why"]))
    assert path_segments(address.removeprefix("http://node").encode()) == ["api", "v1", "clients", name, "why"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_any_names_arrive(names: list[str]) -> None:
    """One by one."""
    assert path_segments(b"/" + path_of(names).encode()) == names


@pytest.mark.parametrize("name", ODD)
def test_a_client_of_any_name_is_shown_and_closed(name: str) -> None:
    """And no other one in its place."""
    view = FakeView()
    view.by_client[name], view.by_session[name] = replace(CLIENT, client_id=name), replace(SESSION, client_id=name)
    browser = make_browser(view)
    for kind in ("clients", "sessions"):
        assert browser.get(f"/api/v1/{path_of([kind, name])}").json["client_id"] == name
    assert browser.get(f"/api/v1/{path_of(['clients', name, 'why'])}").json["client_id"] == name
    assert browser.request("DELETE", f"/api/v1/{path_of(['clients', name])}").status == 204


def test_what_was_an_address_still_is_one() -> None:
    """Of all that a client may be called but a ``~`` before one or two dots."""
    for part in ("~", "~a", "~~", "~...", "a~.", "%7Ea", "...", "~.a"):
        assert path_segments(f"/clients/{part}".encode()) == ["clients", part.replace("%7E", "~")]


@pytest.mark.parametrize("name", [".", ".."])
def test_nobody_is_called_so_and_who_was_can_be_deleted(name: str) -> None:
    """Users of before are where they were."""
    grid = MemoryGrid()
    outcome(start(grid.open()))
    directory = GridDirectory(grid, ManualClock())
    desk = UserDesk(directory, cast(Any, None), asked=True)
    with pytest.raises(ValueError, match="browsers"):
        outcome(start(desk.put(name, Changes(), new=True)))
    outcome(start(directory.put(USERS, name, {}, 0)))
    assert outcome(start(desk.delete(name)))


def test_no_name_of_a_client_leads_elsewhere() -> None:
    """No path below ``clients`` or ``sessions`` is named where another has a client's id."""
    for route in Resources(FakeView(), lambda: 0.0).table:
        if route.path.startswith(("clients/", "sessions/")):
            assert route.parts[1] == "{client_id}", route.path
