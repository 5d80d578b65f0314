"""Commands of gateways: what their links are told, and what becomes of what they say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iot_mqtt.devices import DevicesSettings
from iot_mqtt.devices.link.services import Verdict
from iot_mqtt.devices.registry import Devices
from iot_mqtt.ports.devices import NO_SEQUENCE, StoredDevice, StoredSequence
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.unit.broker.harness import Client, run
from tests.unit.devices.devicekit import DeviceNode, LetIn, confirm, order, states


def gateway(node: DeviceNode, *, epoch: int = 0, peer: str = "p1", user: str | None = None) -> Client:
    """What ``DeviceStage`` does."""
    devices = node.accompanied.devices
    node.patient = True
    client = node.connect("gw", clean=False, expiry=3600, username=user)
    node.patient = False
    client.subscribe("down/gw/#", qos=1)
    devices.known("gw", lambda: None)
    devices.login("gw", codec="acme", version="1.2", peer=peer, epoch=epoch)
    return client


def fresh(devices: Devices, sequence: int) -> bool:
    """Whether a frame of the gateway is new; it is taken then."""
    new = devices.is_fresh("gw", sequence)
    if new:
        devices.taken("gw", sequence)
    return new


def target(stored: StoredDevice) -> str:
    """As it stands behind ``down/`` and ``up/``."""
    return f"{stored.gateway}/{stored.device}" if stored.device else stored.gateway


def test_puback_of_a_gateway_is_no_answer() -> None:
    """It is sent when the link begins, and acked when the device has answered."""
    node = DeviceNode()
    listener, link = node.listener(), gateway(node)
    order(node.connect("s"), "gw/dev1")
    (message,) = link.messages()
    assert states(listener) == ["queued"]
    assert node.begin("c1") == [Verdict(send=True)]
    confirm(link, [message])
    assert states(listener) == ["sent"]
    node.accompanied.states.of("gw").answered("c1", True, "done", {"n": 1})
    node.turn()
    assert states(listener) == ["acked"]
    assert node.record("c1").values == {"n": 1}


def test_begin_answers_only_after_the_commit() -> None:
    """Nothing is written that a restart could take for not sent."""
    node = DeviceNode()
    gateway(node)
    order(node.connect("s"), "gw/dev1")
    node.hold()
    told: list[Verdict] = []
    node.accompanied.states.of("gw").begin("c1", "dev1", told.append, lambda: None)
    node.turn()
    assert told == []
    node.release()
    assert told == [Verdict(send=True)]


@pytest.mark.parametrize(
    ("retry", "answer"), [("yes", Verdict(send=True)), ("no", Verdict(send=False, why="uncertain"))]
)
@pytest.mark.parametrize("restart", [False, True], ids=["reconnect", "restart"])
def test_a_second_begin_needs_leave(retry: str, answer: Verdict, *, restart: bool) -> None:
    """The link was cut before PUBACK; over a restart as well."""
    node = DeviceNode()
    link = gateway(node)
    order(node.connect("s"), "gw/dev1", retry=retry)
    assert len(link.messages()) == 1
    node.begin("c1")
    node.accompanied.states.of("gw").link_lost(["c1"])
    node.accompanied.devices.left("gw", "p1")
    link.lose()
    if restart:
        node.restart()
    link = gateway(node, peer="p2")
    assert len(link.messages()) == 1
    assert node.begin("c1") == [answer]


def test_a_link_does_not_begin_what_a_user_sent_who_is_gone() -> None:
    """Deleted or disabled after the message had left for the gateway."""
    node = DeviceNode(authenticator=LetIn())
    link = gateway(node)
    order(node.connect("s", username="ann"), "gw/dev1")
    assert len(link.messages()) == 1
    node.gone.add("ann")
    assert node.begin("c1") == [Verdict(send=False, why="failed")]
    assert node.record("c1").detail == "its sender was deleted or disabled"


def test_what_was_sent_once_never_expires_as_if_it_had_not() -> None:
    """It waits to be sent again, the broker is restarted, and the gateway does not come back in time."""
    node = DeviceNode()
    link = gateway(node)
    order(node.connect("s"), "gw/dev1", retry="yes", message_expiry_interval=20)
    assert len(link.messages()) == 1
    node.begin("c1")
    node.accompanied.states.of("gw").link_lost(["c1"])
    link.lose()
    node.turn()
    assert node.state("c1") == "queued"
    node.restart()
    node.pass_time(20)
    assert node.state("c1") == "uncertain"


def test_a_lost_link_without_deadline_is_uncertain_after_the_grace() -> None:
    """With one, at the deadline; a command that was answered is not touched."""
    node = DeviceNode(DevicesSettings(grace=10))
    gateway(node)
    sender = node.connect("s")
    order(sender, "gw/dev1", id="plain")
    order(sender, "gw/dev1", id="timed", message_expiry_interval=20)
    order(sender, "gw/dev1", id="done")
    for command in ("plain", "timed", "done"):
        node.begin(command)
    node.accompanied.states.of("gw").answered("done", True)
    node.accompanied.states.of("gw").link_lost(["plain", "timed", "done"])
    node.turn()
    node.pass_time(9.75)
    assert [node.state(one) for one in ("plain", "timed", "done")] == ["sent", "sent", "acked"]
    node.pass_time(0.25)
    assert [node.state(one) for one in ("plain", "timed")] == ["uncertain", "sent"]
    node.pass_time(10)
    assert node.state("timed") == "uncertain"


def test_a_link_is_told_once_when_a_command_is_over() -> None:
    """Answered, failed, or given up by time; of a link that is lost nobody is told."""
    node = DeviceNode()
    gateway(node)
    sender, commands = node.connect("s"), node.accompanied.states.of("gw")
    for name in ("answered", "failed", "lost"):
        order(sender, "gw/dev1", id=name, message_expiry_interval=3600)
    order(sender, "gw/dev1", id="timed", message_expiry_interval=20)
    order(sender, "gw/dev1", id="patient")
    for name in ("answered", "failed", "lost", "timed", "patient"):
        assert node.begin(name) == [Verdict(send=True)]
    commands.link_lost(["lost"])
    assert node.over == []
    commands.answered("answered", True)
    commands.answered("answered", True)
    commands.failed("failed", "no such register")
    commands.answered("lost", True)
    assert node.over == ["answered", "failed"]
    node.pass_time(20)
    assert node.over == ["answered", "failed", "timed"]
    commands.answered("timed", True)
    node.pass_time(39)
    assert node.over == ["answered", "failed", "timed"]
    node.pass_time(1.5)
    assert node.over == ["answered", "failed", "timed", "patient"] and node.state("patient") == "sent"
    commands.answered("patient", True)
    node.turn()
    assert node.over == ["answered", "failed", "timed", "patient"] and node.state("patient") == "acked"


def test_what_cannot_be_encoded_has_failed() -> None:
    """With the codec's reason."""
    node = DeviceNode()
    gateway(node)
    order(node.connect("s"), "gw/dev1")
    node.begin("c1")
    node.accompanied.states.of("gw").failed("c1", "no such register")
    node.turn()
    assert (node.record("c1").state, node.record("c1").detail) == ("failed", "no such register")


@pytest.mark.parametrize("target", ["gw/a/b", "gw/", "gw"])
def test_a_command_to_what_a_gateway_cannot_have_has_failed(target: str) -> None:
    """With the reason; a message to another target that carries its id says nothing of it."""
    node = DeviceNode()
    gateway(node)
    order(node.connect("s"), target)
    commands = node.accompanied.states.of("gw")
    for other in ("gw/a", "gw/a/b/c", "other/a/b"):
        commands.refused("c1", other, "no")
    node.accompanied.states.of("other").refused("c1", target, "no")
    assert node.state("c1") == "queued"
    commands.refused("c1", target, "there is no such device")
    node.turn()
    assert (node.record("c1").state, node.record("c1").detail) == ("failed", "there is no such device")


def test_a_link_asks_for_its_own_commands_only() -> None:
    """A message may carry the id of another gateway's or device's command, if it is none itself."""
    node = DeviceNode()
    listener = node.listener()
    gateway(node)
    order(node.connect("s"), "gw/dev1")
    for target in ("gw/dev2", "other/dev1"):
        assert node.begin("c1", target) == [Verdict(send=False, why="unknown")]
    other = node.accompanied.states.of("other")
    other.answered("c1", True)
    other.failed("c1", "no")
    node.turn()
    assert states(listener) == ["queued"]
    assert node.begin("c1") == [Verdict(send=True)]


def test_a_late_answer_settles_what_was_uncertain_and_nothing_else() -> None:
    """An answer after an answer is not heard."""
    node = DeviceNode(DevicesSettings(grace=1))
    gateway(node)
    order(node.connect("s"), "gw/dev1")
    node.begin("c1")
    node.accompanied.states.of("gw").link_lost(["c1"])
    node.pass_time(1)
    assert node.state("c1") == "uncertain"
    node.accompanied.states.of("gw").answered("c1", False, "jammed")
    node.accompanied.states.of("gw").answered("c1", True)
    node.turn()
    assert node.record("c1").detail == "jammed"


def test_begin_of_what_is_over_says_why() -> None:
    """Also of what nobody knows."""
    node = DeviceNode()
    link = gateway(node)
    order(node.connect("s"), "gw/dev1", message_expiry_interval=5)
    assert len(link.messages()) == 1
    node.advance(5)
    assert node.begin("c1") == [Verdict(send=False, why="expired")]
    assert node.begin("nobody") == [Verdict(send=False, why="unknown")]


def test_sequences_are_known_over_restarts_and_begin_anew_with_an_epoch() -> None:
    """A gateway that sends again is recognised; one that counts anew is not taken for that."""
    node = DeviceNode()
    gateway(node, epoch=7)
    devices = node.accompanied.devices
    assert [fresh(devices, number) for number in (1, 2, 2, 1, 5)] == [True, True, False, False, True]
    node.broker.turn.plan()
    node.turn()
    node.restart()
    devices = node.accompanied.devices
    devices.known("gw", lambda: None)
    assert devices.login("gw", codec="acme", version="1", peer="p", epoch=7) == 5
    assert not fresh(devices, 5)
    assert devices.login("gw", codec="acme", version="1", peer="p", epoch=8) == NO_SEQUENCE
    assert fresh(devices, 0)


def logged_in(node: DeviceNode, user: str | None = None) -> int:
    """What is safe of a gateway that comes once more; the session of before is over."""
    node.pass_time(3601)
    gateway(node, user=user).lose()
    node.accompanied.devices.left("gw", "p1")
    return node.accompanied.devices.login("gw", codec="acme", version="1.2", peer="p1")


@pytest.mark.parametrize("restart", [False, True], ids=["at once", "after a restart"])
def test_a_sequence_is_of_the_user_whose_gateway_it_is(*, restart: bool) -> None:
    """Whoever has the name later begins anew, and is not taken for a repetition of what another user sent."""
    node = DeviceNode(authenticator=LetIn())
    devices = node.accompanied.devices
    gateway(node, user="mallory").lose()
    assert fresh(devices, 2**53 - 1)
    devices.left("gw", "p1")
    node.turn()
    new = NO_SEQUENCE
    for user, safe in (("mallory", 2**53 - 1), ("ann", new), (None, new), ("mallory", new), ("mallory", 0)):
        if restart:
            node.restart()
            devices = node.accompanied.devices
        assert (user, logged_in(node, user)) == (user, safe)
        if safe == NO_SEQUENCE:
            assert fresh(devices, 0)
            node.turn()


def test_a_sequence_of_before_there_were_owners_is_whose_gateway_comes_first() -> None:
    """As a release before wrote it."""
    node = DeviceNode(authenticator=LetIn())
    batch = WriteBatch()
    batch.put(CacheName.DEVICES, b"sgw", b"\x10" + (0).to_bytes(8, "big") + (5).to_bytes(8, "big"))
    run(node.grid.commit(batch))
    node.restart()
    devices = node.accompanied.devices
    assert logged_in(node, "ann") == 5
    assert fresh(devices, 6)
    node.turn()
    assert logged_in(node, "bob") == NO_SEQUENCE


def test_a_sequence_is_forgotten_with_its_gateway() -> None:
    """When others make room, its record goes as well."""
    node = DeviceNode(DevicesSettings(max_devices=1, seen_interval=0.1))
    devices = node.accompanied.devices
    gateway(node).lose()
    fresh(devices, 7)
    devices.left("gw", "p1")
    node.turn()
    assert run(node.kept.sequence("gw")) is not None
    devices.login("other", codec="acme", version="1", peer="p")
    node.pass_time(1)
    assert run(node.kept.sequence("gw")) is None


def test_a_first_frame_that_was_refused_leaves_nothing_behind() -> None:
    """It may have the number 0, and is to come again."""
    node = DeviceNode()
    devices = node.accompanied.devices
    gateway(node)
    assert fresh(devices, 0) and not fresh(devices, 0)
    devices.not_taken("gw", NO_SEQUENCE)
    node.turn()
    assert run(devices.sequence("gw")) is None
    assert fresh(devices, 0)
    node.turn()
    assert run(devices.sequence("gw")) == StoredSequence(0, 0, "")


def test_a_sequence_is_looked_at_and_forgotten_by_an_operator() -> None:
    """So that a gateway that counts from 1 again, or jumped far ahead, is heard again."""
    node = DeviceNode(authenticator=LetIn())
    devices = node.accompanied.devices
    gateway(node, user="ann")
    assert fresh(devices, 2**53 - 1)
    node.turn()
    assert run(devices.sequence("gw")) == StoredSequence(0, 2**53 - 1, "ann")
    assert not fresh(devices, 1)
    assert run(devices.forget_sequence("gw"))
    assert run(devices.sequence("gw")) is None
    assert [fresh(devices, number) for number in (0, 0, 1)] == [True, False, True]
    node.turn()
    assert not run(devices.forget_sequence("nobody"))


def test_a_sequence_is_safe_exactly_with_its_readings() -> None:
    """One batch has both: a crash before it loses both, one after it keeps both."""
    for written in (False, True):
        node = DeviceNode()
        link = gateway(node)
        reader = node.connect("reader", clean=False, expiry=3600)
        reader.subscribe("up/#", qos=1)
        reader.lose()
        node.hold()
        fresh(node.accompanied.devices, 1)
        link.publish("up/gw/dev1", b"{}", qos=1)
        node.restart(written=written)
        devices = node.accompanied.devices
        devices.known("gw", lambda: None)
        safe = devices.login("gw", codec="acme", version="1", peer="p")
        reader = node.connect("reader", clean=False, expiry=3600)
        assert (safe, len(reader.messages())) == ((1, 1) if written else (NO_SEQUENCE, 0))


@pytest.mark.parametrize("number", [1, None])
def test_readings_are_written_whole_with_their_sequence(number: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a grid writes one entry after the other; without a number there is nothing to keep together."""
    node = DeviceNode()
    link = gateway(node)
    reader = node.connect("reader", clean=False, expiry=3600)
    reader.subscribe("up/#", qos=1)
    reader.lose()
    batches: list[WriteBatch] = []
    commit = node.grid.commit_soon

    def watched(batch: WriteBatch, done: Callable[[BaseException | None], None]) -> None:
        batches.append(batch)
        commit(batch, done)

    monkeypatch.setattr(node.grid, "commit_soon", watched)
    if number is not None:
        node.accompanied.devices.taken("gw", number)
    link.publish("up/gw/dev1", b"{}", qos=1)
    (batch,) = [one for one in batches if any(cache is CacheName.LOG for cache, *_ in one.operations)]
    assert batch.whole is (number is not None)


def test_gateways_and_devices_are_remembered() -> None:
    """When they were seen, what they speak, and whether they are there; over a restart."""
    node = DeviceNode(DevicesSettings(seen_interval=10))
    gateway(node)
    devices = node.accompanied.devices
    devices.seen("gw", "dev1", readings=3)
    node.pass_time(1)
    began = node.clock.wall()
    (first, second) = run(devices.page(None, None, 10))
    assert (target(first), first.online, first.codec, first.version, first.address) == ("gw", True, "acme", "1.2", "p1")
    assert (target(second), second.readings) == ("gw/dev1", 3)
    node.advance(5)
    devices.seen("gw", "dev1")
    node.accompanied.stopping()
    node.turn()
    node.restart()
    devices = node.accompanied.devices
    node.pass_time(0)
    found = run(devices.find("gw", "dev1"))
    assert found is not None
    assert (found.readings, found.last_seen) == (4, began + 5)
    gone = run(devices.find("gw", ""))
    assert gone is not None
    assert not gone.online


def test_the_number_of_devices_is_bounded() -> None:
    """Those that were seen longest ago make room, in the store as well."""
    node = DeviceNode(DevicesSettings(max_devices=3, seen_interval=0.1))
    devices = node.accompanied.devices
    for number in range(10):
        devices.seen("gw", f"dev{number}")
        node.pass_time(1)
    assert [one.device for one in run(devices.page("gw", None, 10))] == ["dev7", "dev8", "dev9"]


def test_one_takes_over_from_another() -> None:
    """The old connection's end does not make the gateway look gone."""
    node = DeviceNode()
    gateway(node, peer="p1")
    gateway(node, peer="p2")
    node.accompanied.devices.left("gw", "p1")
    assert node.accompanied.devices.connected == 1
    node.accompanied.devices.left("gw", "p2")
    assert node.accompanied.devices.connected == 0


def test_a_device_is_online_while_it_posts_and_its_gateway_is_here() -> None:
    """Neither one that has fallen silent nor one whose gateway is gone."""
    node = DeviceNode(DevicesSettings(silent_after=60, seen_interval=1))
    devices = node.accompanied.devices
    gateway(node)

    def online() -> list[tuple[str, bool]]:
        node.pass_time(2)
        return [(one.device, one.online) for one in run(devices.page(None, None, 10))]

    devices.seen("gw", "dev1")
    devices.seen("gw", "dev2")
    assert online() == [("", True), ("dev1", True), ("dev2", True)]
    node.pass_time(50)
    devices.seen("gw", "dev2")
    node.pass_time(20)
    assert online() == [("", True), ("dev1", False), ("dev2", True)]
    found = run(devices.find("gw", "dev2"))
    assert found is not None and found.online
    devices.left("gw", "p1")
    assert online() == [("", False), ("dev1", False), ("dev2", False)]


def test_whoever_is_connected_is_not_thrown_out() -> None:
    """Any number of names that come and go make room for each other."""
    node = DeviceNode(DevicesSettings(max_devices=4, seen_interval=0.1))
    devices = node.accompanied.devices
    gateway(node)
    devices.seen("gw", "dev1")
    node.pass_time(1)
    for number in range(10):
        devices.login(f"other-{number}", codec="acme", version="1", peer="p")
        devices.left(f"other-{number}", "p")
        node.pass_time(1)
    assert [target(one) for one in run(devices.page(None, None, 10))] == ["gw", "gw/dev1", "other-8", "other-9"]
    for name in ("other-8", "other-9"):
        devices.login(name, codec="acme", version="1", peer="p")
    before = devices.forgotten
    devices.login("one-too-many", codec="acme", version="1", peer="p")
    node.pass_time(1)
    assert devices.forgotten == before + 1 and devices.connected == 4
    assert [target(one) for one in run(devices.page(None, None, 10))] == ["gw", "gw/dev1", "other-8", "other-9"]
    devices.left("one-too-many", "p")


def test_one_gateway_does_not_fill_it_for_all_others() -> None:
    """Beyond its share its own devices make room."""
    node = DeviceNode(DevicesSettings(max_devices=100, max_devices_behind=3, seen_interval=0.1))
    devices = node.accompanied.devices
    gateway(node)
    devices.seen("other", "dev")
    for number in range(10):
        devices.seen("gw", f"dev{number}")
        node.pass_time(1)
    known = [target(one) for one in run(devices.page(None, None, 100))]
    assert known == ["gw", "gw/dev7", "gw/dev8", "gw/dev9", "other/dev"]
    assert devices.forgotten == 7


def test_a_client_that_wants_its_own_commands_is_a_device() -> None:
    """While it is connected it is online; whoever looks at the commands of others is none."""
    node = DeviceNode()
    devices = node.accompanied.devices
    press = node.device("press-7")
    watcher = node.connect("watcher", expiry=60)
    watcher.subscribe("down/#", qos=1)
    brief = node.connect("brief")
    brief.subscribe("down/brief/#", qos=1)
    node.turn()

    def known() -> list[tuple[str, str, str, bool, int]]:
        return [
            (target(one), one.codec, one.version, one.online, one.logins) for one in run(devices.page(None, None, 9))
        ]

    assert known() == [("press-7", "mqtt", "5.0", True, 1)]
    press.lose()
    node.turn()
    assert known() == [("press-7", "mqtt", "5.0", False, 1)]
    node.connect("press-7", clean=False, expiry=3600)
    node.turn()
    assert known() == [("press-7", "mqtt", "5.0", True, 2)]
    assert devices.connected == 0
