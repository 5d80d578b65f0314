"""Commands to MQTT devices: every one ends, says how, and leaves once unless its sender allowed more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from iot_mqtt.codec import Ack, ConnectWill, Packet, PacketType, Properties
from iot_mqtt.devices import DevicesSettings, NewCommand
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.access import Action, ConnectAttempt, Denied, Principal
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.devices import State, StoredCommand, replace
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.values import NO_STANDING, Standing
from tests.doubles.rights import AnyForm, Ruled
from tests.unit.broker.harness import V311, Client, run
from tests.unit.devices.devicekit import DeviceNode, LetIn, command_of, confirm, order, states, statuses, until
from tests.unit.devices.test_elsewhere import among_others


def test_a_command_is_queued_sent_and_acked() -> None:
    """The device gets it with its id; every state is told, also where the sender asked for it."""
    node = DeviceNode()
    listener, device = node.listener("status/#", "answers/me"), node.device()
    order(node.connect("s"), "d1/valve", b'{"open":1}', response_topic="answers/me", correlation_data=b"\1\2")
    (message,) = device.messages()
    assert (message.topic, message.payload, command_of(message)) == (b"down/d1/valve", b'{"open":1}', "c1")
    confirm(device, [message])
    heard = listener.messages()
    assert [one.topic for one in heard] == [b"status/d1/valve/c1", b"answers/me"] * 3
    assert {one.properties.correlation_data for one in heard} == {b"\1\2"}
    record = node.record("c1")
    assert (record.state, record.attempts, record.target, record.sender) == ("acked", 1, "d1/valve", "s")
    assert list(record.times) == ["queued", "sent", "acked"]


def test_the_record_is_committed_before_the_sender_is_acknowledged() -> None:
    """And ``sent`` before the device gets a byte."""
    node = DeviceNode()
    device, sender = node.device(), node.connect("s")
    node.hold()
    assert sender.publish("down/d1", b"x", qos=1, user_properties=(("command-id", "c1"),)) == []
    assert not device.messages()
    node.release()
    assert sender.acks(PacketType.PUBACK)
    assert node.state("c1") == "sent"
    assert len(device.messages()) == 1


def test_sent_is_committed_before_it_leaves() -> None:
    """A crash right after the device got it must not make a restart believe that it had not."""
    node = DeviceNode()
    device, sender = node.device(), node.connect("s")
    device.lose()
    order(sender, "d1")
    node.hold()
    device = node.connect("d1", clean=False, expiry=3600)
    node.turn()
    assert not device.messages()
    node.release()
    assert node.state("c1") == "sent"
    assert len(device.messages()) == 1


def test_offline_it_waits_over_a_restart() -> None:
    """Queued, then delivered when the device comes."""
    node = DeviceNode()
    node.device().lose()
    order(node.connect("s"), "d1")
    node.restart(written=True)
    assert node.state("c1") == "queued"
    listener = node.connect("l")
    listener.subscribe("status/#", qos=1)
    device = node.connect("d1", clean=False, expiry=3600)
    confirm(device, device.messages())
    assert states(listener) == ["sent", "acked"]


def test_a_device_that_may_not_have_it_any_more_fails_its_commands() -> None:
    """The right to its topic was taken back while it was away; its sender hears why."""

    class Rights(AnyForm):
        taken = False

        def allows(self, action: Action, asked: str) -> bool:
            return not (self.taken and asked.startswith("down/d1"))

    rights = Rights()
    node = DeviceNode(authorizer=rights)
    listener = node.listener()
    node.device().lose()
    order(node.connect("s"), "d1")
    rights.taken = True
    device = node.connect("d1", clean=False, expiry=3600)
    assert not device.messages()
    last = statuses(listener)[-1]
    assert (last["state"], last["detail"]) == ("failed", "it could not be sent: not_authorized")


@pytest.mark.parametrize("restart", [False, True], ids=["lives", "restart"])
def test_a_command_of_a_user_who_is_gone_is_not_sent(*, restart: bool) -> None:
    """Its record says why, it is counted, and nothing is told where he wanted it told."""
    node = DeviceNode(authenticator=LetIn())
    listener = node.listener("status/#", "answers/#")
    node.device().lose()
    order(node.connect("s", username="ann"), "d1", response_topic="answers/ann")
    order(node.connect("t", username="eve"), "d1", id="c2", response_topic="answers/eve")
    assert states(listener) == ["queued"] * 4
    node.gone.add("ann")
    if restart:
        node.restart()
        node.turn()
    device = node.connect("d1", clean=False, expiry=3600)
    assert [command_of(message) for message in device.messages()] == ["c2"]
    record = node.record("c1")
    assert (record.state, record.detail, record.attempts) == ("failed", "its sender was deleted or disabled", 0)
    assert node.counters.dropped[Drop.COMMAND_OVER] == 1
    listener = listener if not restart else node.connect("listener", clean=False, expiry=3600)
    topics = {message.topic for message in listener.messages()}
    assert {b"status/d1/c1", b"answers/eve"} <= topics
    assert b"answers/ann" not in topics


def test_a_command_of_a_user_who_is_gone_is_not_sent_again() -> None:
    """Though it might be: nobody knows whether the device has it."""
    node = DeviceNode(authenticator=LetIn())
    device = node.device()
    order(node.connect("s", username="ann"), "d1", retry="yes")
    assert len(device.messages()) == 1
    device.lose()
    node.gone.add("ann")
    assert not node.connect("d1", clean=False, expiry=3600).messages()
    assert (node.state("c1"), node.record("c1").detail) == ("uncertain", "its sender was deleted or disabled")


def test_the_next_user_of_a_name_is_another_sender() -> None:
    """What is kept is which of them it was."""

    class Second(LetIn):
        async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
            return Principal(attempt.client_id, "ann", generation=1, groups=frozenset({"ops"}), link="grid")

    node = DeviceNode(authenticator=Second())
    node.device().lose()
    order(node.connect("s"), "d1")
    record = node.record("c1")
    assert (record.user, record.identities) == ("ann", ("ann\0001",))
    assert record.standing == Standing(frozenset({"ops"}), record.standing.address, (), "grid")
    node.gone.add("ann")
    assert len(node.connect("d1", clean=False, expiry=3600).messages()) == 1


@pytest.mark.parametrize(("users", "identities"), [((), ()), (("d1", "d"), ("d1", "d"))])
def test_a_command_by_the_api_is_of_all_in_whose_name_it_is(
    users: tuple[str, ...], identities: tuple[str, ...]
) -> None:
    """The operator's own are nobody's who could go."""
    node = DeviceNode()
    node.device().lose()
    run(node.accompanied.commands.submit(NewCommand("d1", b"x", id="c1", users=users)))
    assert node.record("c1").identities == identities
    node.gone.update({"", "d"})
    sent = node.connect("d1", clean=False, expiry=3600).messages()
    assert (len(sent), node.state("c1")) == ((0, "failed") if users else (1, "sent"))


def test_states_are_told_on_a_response_topic_only_while_its_sender_may_publish_there() -> None:
    """The right to it was taken back while the command waited; the command itself was allowed, and is sent."""
    node = DeviceNode(authenticator=LetIn())
    listener = node.listener("status/#", "plant/alarm")
    node.device().lose()
    order(node.connect("s", username="ann"), "d1", response_topic="plant/alarm")
    assert [message.topic for message in listener.messages()] == [b"status/d1/c1", b"plant/alarm"]
    node.forbidden.add("plant/alarm")
    confirm(device := node.connect("d1", clean=False, expiry=3600), device.messages())
    assert [message.topic for message in listener.messages()] == [b"status/d1/c1"] * 2


@pytest.mark.parametrize("record", [{"user": "ann"}, {"user": None}], ids=["named", "unnamed"])
def test_what_an_earlier_release_wrote_is_sent_and_told_as_before(record: dict[str, Any]) -> None:
    """It does not say who exactly its sender was."""
    node = DeviceNode(authenticator=LetIn())
    listener = node.listener("answers/ann")
    node.device().lose()
    order(node.connect("s", username="ann"), "d1", response_topic="answers/ann")
    (tracked,) = node.accompanied.book
    tracked.record = replace(tracked.record, identities=(), standing=NO_STANDING, **record)
    node.gone.add("ann")
    confirm(device := node.connect("d1", clean=False, expiry=3600), device.messages())
    assert states(listener) == ["queued", "sent", "acked"]


@pytest.mark.parametrize("restart", [False, True], ids=["reconnect", "restart"])
@pytest.mark.parametrize(("retry", "times", "state"), [("no", 0, "uncertain"), ("yes", 1, "acked")])
def test_sent_and_not_confirmed_it_leaves_again_only_if_that_was_allowed(
    retry: str, times: int, state: str, *, restart: bool
) -> None:
    """Without leave it is openly uncertain; the flight is gone and what follows is delivered."""
    node = DeviceNode()
    device = node.device()
    order(node.connect("s"), "d1", retry=retry)
    assert len(device.messages()) == 1
    device.lose()
    if restart:
        node.restart()
    device = node.connect("d1", clean=False, expiry=3600)
    again = device.messages()
    assert len(again) == times
    confirm(device, again)
    assert node.state("c1") == state
    order(node.connect("s"), "d1", id="c2")
    (after,) = device.messages()
    assert command_of(after) == "c2"
    assert len(node.session("d1").outbound) == 1


def test_a_takeover_sends_nothing_twice() -> None:
    """The newcomer has the same session and not the command."""
    node = DeviceNode()
    first = node.device()
    order(node.connect("s"), "d1")
    assert len(first.messages()) == 1
    second = node.connect("d1", clean=False, expiry=3600)
    assert second.messages() == []
    assert node.state("c1") == "uncertain"


def test_a_deadline_expires_what_waits_to_the_second() -> None:
    """Not before, and the device never gets it."""
    node = DeviceNode()
    listener = node.listener()
    node.device().lose()
    order(node.connect("s"), "d1", message_expiry_interval=5)
    for _ in range(19):
        node.pass_time(0.25)
    assert states(listener) == ["queued"]
    node.pass_time(0.25)
    (status,) = statuses(listener)
    assert status["state"] == "expired"
    assert node.device().messages() == []


def test_a_deadline_makes_what_was_sent_uncertain() -> None:
    """And a confirmation that comes late settles it after all."""
    node = DeviceNode()
    listener, device = node.listener(), node.device()
    order(node.connect("s"), "d1", message_expiry_interval=2)
    (message,) = device.messages()
    node.pass_time(2.0)
    assert states(listener) == ["queued", "sent", "uncertain"]
    confirm(device, [message])
    assert states(listener) == ["acked"]


def test_a_deadline_survives_a_restart() -> None:
    """The sweep of the next life finds it."""
    node = DeviceNode()
    node.device().lose()
    order(node.connect("s"), "d1", message_expiry_interval=5)
    node.restart(written=True)
    node.pass_time(4.75)
    assert node.state("c1") == "queued"
    node.pass_time(0.25)
    assert node.state("c1") == "expired"


def test_a_device_may_answer_for_itself() -> None:
    """With ``wants-reply`` PUBACK is not enough; the reply has details; nobody else can give it."""
    node = DeviceNode()
    listener, device, sender = node.listener(), node.device(), node.connect("s")
    order(sender, "d1", reply="yes")
    confirm(device, device.messages())
    sender.publish("reply/c1", b'{"ok": false}', qos=1)
    assert states(listener) == ["queued", "sent"]
    device.publish("reply/c1", b"no json", qos=1)
    assert states(listener) == []
    (ack,) = device.publish("reply/c1", b'{"ok": false, "detail": "stuck", "values": {"pos": 3}}', qos=1)
    assert isinstance(ack, Ack)
    (status,) = statuses(listener)
    assert (status["state"], status["detail"], status["values"]) == ("failed", "stuck", {"pos": 3})


def test_a_refusing_puback_fails_it() -> None:
    """A reason of 0x80 or more is an answer, too."""
    node = DeviceNode()
    device = node.device()
    order(node.connect("s"), "d1")
    (message,) = device.messages()
    device.ack(PacketType.PUBACK, message.packet_id, reason=ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)
    assert node.state("c1") == "failed"


def test_qos_2_is_acked_with_pubrec() -> None:
    """From there on the device has it, whatever becomes of the rest."""
    node = DeviceNode()
    device = node.connect("d1", clean=False, expiry=3600)
    device.subscribe("down/d1", qos=2)
    order(node.connect("s"), "d1", qos=2)
    (message,) = device.messages()
    device.ack(PacketType.PUBREC, message.packet_id)
    assert node.state("c1") == "acked"


@pytest.mark.parametrize("restart", [False, True], ids=["reconnect", "restart"])
def test_the_packet_id_of_a_qos_2_command_that_is_given_up_is_freed(*, restart: bool) -> None:
    """The device may remember it: the next command under it would look like a repetition, and be thrown away."""
    node = DeviceNode()
    device = node.connect("d1", clean=False, expiry=3600)
    device.subscribe("down/d1", qos=2)
    sender = node.connect("s")
    order(sender, "d1", qos=2)
    (message,) = device.messages()
    device.lose()
    if restart:
        node.restart()
        sender = node.connect("s")
    device = node.connect("d1", clean=False, expiry=3600)
    (freed,) = device.acks(PacketType.PUBREL)
    assert isinstance(freed, Ack) and freed.packet_id == message.packet_id
    assert node.state("c1") == "uncertain"
    order(sender, "d1", qos=2, id="c2")
    (other,) = device.messages()
    assert other.packet_id != message.packet_id
    device.ack(PacketType.PUBCOMP, message.packet_id)
    device.ack(PacketType.PUBREC, other.packet_id)
    assert [node.state(one) for one in ("c1", "c2")] == ["uncertain", "acked"]


@pytest.mark.parametrize(
    ("expiry", "filter", "qos", "why"),
    [(None, None, 0, "no session"), (3600, "down/other", 1, "not subscribed"), (3600, "down/d1", 0, "QoS 0")],
)
def test_what_nobody_would_get_fails_at_once(expiry: int | None, filter: str | None, qos: int, why: str) -> None:
    """With a reason, and nothing is sent."""
    node = DeviceNode()
    listener = node.listener()
    device = None
    if filter is not None:
        device = node.connect("d1", expiry=expiry)
        device.subscribe(filter, qos=qos)
    order(node.connect("s"), "d1")
    (status,) = statuses(listener)
    assert status["state"] == "failed"
    assert why in status["detail"]
    assert device is None or device.messages() == []


def test_the_end_of_a_session_ends_its_commands() -> None:
    """What was not sent has failed, what was sent is uncertain; at once for one that ends with its connection."""
    node = DeviceNode()
    listener = node.listener()
    device = node.connect("d1")
    device.subscribe("down/d1", qos=1)
    order(node.connect("s"), "d1")
    assert len(device.messages()) == 1
    device.lose()
    assert states(listener) == ["queued", "sent", "uncertain"]
    node.device("d2").lose()
    order(node.connect("s"), "d2", id="c2")
    node.connect("d2", clean=True, expiry=3600)
    assert states(listener) == ["queued", "failed"]


@pytest.mark.parametrize(
    ("reply", "state"),
    [
        (b"", "acked"),
        (b"{}", "acked"),
        (b'{"detail": "fine"}', "acked"),
        (b'{"values": {"speed": 3}}', "acked"),
        (b'{"ok": true, "took": 5}', "acked"),
        (b'{"ok": false, "took": 5}', "failed"),
        (b'{"OK": false}', "sent"),
        (b'{"state": "failed"}', "sent"),
        (b'{"Ok": false, "detail": "stuck"}', "sent"),
        (b'{"ok": false, "ok": true}', "sent"),
        (b'{"values": {"a": 1, "a": 2}}', "sent"),
    ],
)
def test_a_reply_counts_by_names_that_are_known(reply: bytes, state: str) -> None:
    """One that could mean something else is not understood, and counted."""
    node = DeviceNode()
    device = node.device()
    order(node.connect("s"), "d1", reply="yes")
    device.messages()
    device.publish("reply/c1", reply, qos=1)
    assert (node.state("c1"), node.accompanied.states.bad_replies) == (state, state == "sent")


def test_an_idempotency_key_sends_once() -> None:
    """The same command is told of instead, in the new sender's words, during its life and after a restart."""
    node = DeviceNode()
    device, sender = node.device(), node.connect("s")
    sender.subscribe("answers", qos=1)
    order(sender, "d1", id="", key="k")
    (message,) = device.messages()
    confirm(device, [message])
    order(sender, "d1", id="", key="k", response_topic="answers", correlation_data=b"2")
    (answer,) = sender.messages()
    assert answer.properties.correlation_data == b"2"
    assert b'"acked"' in answer.payload
    assert (command_of(message) or "?").encode() in answer.payload
    node.restart()
    device = node.connect("d1", clean=False, expiry=3600)
    order(node.connect("s"), "d1", id="", key="k")
    assert device.messages() == []
    order(node.connect("s"), "d1", id="", key="another")
    assert len(device.messages()) == 1


def test_an_idempotency_key_is_of_its_target() -> None:
    """Two devices may be given the same one."""
    node = DeviceNode()
    devices = [node.device(), node.device("d2")]
    sender = node.connect("s")
    for target in ("d1", "d2", "d1", "d2"):
        order(sender, target, id="", key="k")
    assert [len(device.messages()) for device in devices] == [1, 1]


def test_an_idempotency_key_that_was_forgotten_can_be_used_anew() -> None:
    """With its command, and from then on it stands for the new one."""
    node = DeviceNode(DevicesSettings(keep_commands=60.0))
    device, sender = node.device(), node.connect("s")
    for _ in range(2):
        for _ in range(3):
            order(sender, "d1", id="", key="k")
        (message,) = device.messages()
        confirm(device, [message])
        node.pass_time(61)


def test_of_two_commands_with_one_key_the_first_has_it() -> None:
    """Two nodes may have accepted one each. The key goes with its own command, not with the other."""
    node = DeviceNode(DevicesSettings(keep_commands=60.0))
    book, now = node.accompanied.book, node.clock.wall()

    def same() -> str | None:
        node.pass_time(30.5)
        found = book.same("d1", "k", None)
        return None if found is None else found.record.id

    for number, command_id in enumerate(("first", "other")):
        times = {"acked": now + 30 * number}
        book.add(StoredCommand(command_id, "d1", State.ACKED, now, idempotency_key="k", times=times))
    assert (same(), same()) == ("first", None)
    book.add(StoredCommand("third", "d1", State.QUEUED, now, idempotency_key="k"))
    assert same() == "third"
    assert [one.record.id for one in book] == ["third"]


@pytest.mark.parametrize(
    ("attempts", "left", "state"),
    [
        (0, False, "expired"),
        (1, False, "expired"),
        (1, True, "uncertain"),
        (2, False, "uncertain"),
        (2, True, "uncertain"),
    ],
)
def test_a_command_is_given_up_as_what_is_certain_of_it(attempts: int, state: str, *, left: bool) -> None:
    """``left``: the attempt that was counted last did leave. Before it, all others have."""
    node = DeviceNode()
    node.device().lose()
    order(node.connect("s"), "d1")
    book = node.accompanied.book
    tracked = book.get("d1", "c1")
    assert tracked is not None
    for _ in range(attempts):
        book.sent(tracked)
    tracked.left = left
    book.give_up(tracked, "a test")
    node.turn()
    assert node.state("c1") == state


def test_the_same_id_again_is_the_same_command() -> None:
    """A sender that never saw its PUBACK may send again."""
    node = DeviceNode()
    device, sender = node.device(), node.connect("s")
    order(sender, "d1")
    order(sender, "d1")
    assert len(device.messages()) == 1
    wanted = {"user_properties": (("command-id", "c1"),)}
    assert reason_of(sender, "d1/valve", **wanted) is WRONG
    node.device("d2")
    assert reason_of(sender, "d2", **wanted) is ReasonCode.SUCCESS


def test_a_sender_of_3_1_1_gets_the_defaults() -> None:
    """An id is given, nothing is repeated."""
    node = DeviceNode()
    device = node.device()
    sender = node.connect("s", V311)
    sender.publish("down/d1", b"a", b"b", qos=1)
    messages = device.messages()
    assert [message.payload for message in messages] == [b"a", b"b"]
    ids = [command_of(message) for message in messages]
    assert len({*ids}) == 2
    assert None not in ids


def test_a_device_of_3_1_1_is_served_too() -> None:
    """It sees no id; PUBACK is its answer."""
    node = DeviceNode()
    device = node.connect("d1", V311, clean=False)
    device.subscribe("down/d1", qos=1)
    order(node.connect("s"), "d1")
    confirm(device, device.messages())
    assert node.state("c1") == "acked"


def test_who_listens_in_confirms_nothing() -> None:
    """Only the target's own session counts."""
    node = DeviceNode()
    device, monitor = node.device(), node.connect("monitor", expiry=100)
    monitor.subscribe("down/#", qos=1)
    order(node.connect("s"), "d1")
    confirm(monitor, monitor.messages())
    assert node.state("c1") == "sent"
    confirm(device, device.messages())
    assert node.state("c1") == "acked"


def test_qos_0_and_retained_are_messages_like_others() -> None:
    """They have no state."""
    node = DeviceNode()
    device, sender = node.device(), node.connect("s")
    sender.publish("down/d1", b"0")
    sender.publish("down/d1", b"r", qos=1, retain=True)
    assert device.payloads() == [b"0", b"r"]
    assert node.count() == 0


def test_it_can_be_cancelled_until_it_is_sent() -> None:
    """The device never gets it; later it is refused."""
    node = DeviceNode()
    book = node.accompanied.book
    node.device().lose()
    order(node.connect("s"), "d1")
    order(node.connect("s"), "d1", id="c2")
    node.broker.turn.call_soon(lambda: None)
    book.cancel("d1", "c1")
    node.turn()
    record = node.record("c1")
    assert (record.state, record.detail) == ("failed", "cancelled")
    device = node.connect("d1", clean=False, expiry=3600)
    assert [command_of(message) for message in device.messages()] == ["c2"]
    with pytest.raises(Refused, match="sent"):
        book.cancel("d1", "c2")
    assert node.dropped() == {"command_over": 1}


def test_it_is_submitted_without_a_client() -> None:
    """As the API and the uplink do."""
    node = DeviceNode()
    device = node.device()
    record = run(node.accompanied.commands.submit(NewCommand("d1/valve", b"go", retry=True), "api"))
    node.turn()
    (message,) = device.messages()
    assert (message.payload, command_of(message)) == (b"go", record.id)
    found = node.find(record.id)
    assert found is not None
    assert (found.body, found.retry, found.sender) == (b"go", True, "api")
    for target in ("", "/x", "a/#"):
        with pytest.raises(Refused, match="target"):
            run(node.accompanied.commands.submit(NewCommand(target)))


def test_too_many_are_refused() -> None:
    """The sender is told 0x97."""
    node = DeviceNode(DevicesSettings(max_commands=1))
    node.device().lose()
    sender = node.connect("s")
    order(sender, "d1")
    (answer,) = sender.publish("down/d1", b"", qos=1)
    assert isinstance(answer, Ack)
    assert answer.reason is ReasonCode.QUOTA_EXCEEDED


def reason_of(sender: Client, target: str, **properties: Any) -> ReasonCode:
    (answer,) = sender.publish(f"down/{target}", b"", qos=1, **properties)
    assert isinstance(answer, Ack)
    return ReasonCode(answer.reason)


OK, FULL, WRONG = ReasonCode.SUCCESS, ReasonCode.QUOTA_EXCEEDED, ReasonCode.PAYLOAD_FORMAT_INVALID


def refusals(answers: Sequence[Packet]) -> list[tuple[ReasonCode, str | None]]:
    """Reasons and words of acknowledgements."""
    return [(ReasonCode(one.reason), one.properties.reason_string) for one in answers if isinstance(one, Ack)]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("command-id", "bad id!", "a command id has 1 to 64 letters, digits, '.', '_' and '-'"),
        ("command-id", "x" * 65, "a command id has 1 to 64 letters, digits, '.', '_' and '-'"),
        ("command-id", "kafka-478f429e-0-5-1795994763426", "such a command id is made for records of Kafka"),
        ("command-id", "taken", "the command id is in use"),
        ("idempotency-key", "k" * 129, "an idempotency key has at most 128 characters"),
    ],
)
def test_who_asks_for_what_cannot_be_is_told_why(name: str, value: str, why: str, qos: int) -> None:
    """And not that there is no room: a sender would try that again."""
    node = DeviceNode()
    node.device("gw")
    order(node.connect("first"), "gw/press", id="taken")
    sender = node.connect("s")
    asked = ((name, value),)
    assert refusals(sender.publish("down/gw/drill", b"", qos=qos, user_properties=asked)) == [(WRONG, why)]
    silent = node.connect("silent", request_problem_information=False)
    assert refusals(silent.publish("down/gw/drill", b"", qos=qos, user_properties=asked)) == [(WRONG, None)]
    if qos == 2:
        # The exchange is over with that.
        assert not node.session("s").inbound.received


NEITHER = "{} must be yes or no"
TWICE = "{} stands twice, with other values"


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ((("retry", "maybe"),), NEITHER.format("retry")),
        ((("retry", ""),), NEITHER.format("retry")),
        ((("wants-reply", "2"),), NEITHER.format("wants-reply")),
        ((("command-id", "c1"), ("command-id", "c2")), TWICE.format("command-id")),
        ((("retry", "yes"), ("retry", "no")), TWICE.format("retry")),
        ((("idempotency-key", "a"), ("x", ""), ("idempotency-key", "b")), TWICE.format("idempotency-key")),
        ((("command-id", "taken"), ("retry", "maybe")), NEITHER.format("retry")),
    ],
)
def test_properties_that_say_nothing_clear_are_refused(asked: tuple[tuple[str, str], ...], why: str, qos: int) -> None:
    """Nothing is kept or sent, not even the repetition of a command."""
    node = DeviceNode()
    device = node.device("d1")
    sender = node.connect("s")
    order(sender, "d1", id="taken")
    device.messages()
    assert refusals(sender.publish("down/d1", b"", qos=qos, user_properties=asked)) == [(WRONG, why)]
    assert device.messages() == []
    with pytest.raises(AssertionError, match="no record"):
        node.record("c1")


@pytest.mark.parametrize("value", ["yes", "No", "TRUE", "false", "1", "0"])
def test_properties_may_stand_twice_if_they_agree(value: str) -> None:
    """A bridge may add what is there."""
    node = DeviceNode()
    device = node.device("d1")
    asked = (("command-id", "c1"), ("retry", value)) * 2
    (answer,) = refusals(node.connect("s").publish("down/d1", b"", qos=1, user_properties=asked))
    assert answer[0] is OK and len(device.messages()) == 1
    assert node.record("c1").retry is (value in ("yes", "TRUE", "1"))


def test_each_of_several_commands_is_answered_for_itself() -> None:
    """They come in one piece; for the second there is no room."""
    node = DeviceNode(DevicesSettings(max_commands=1))
    node.device().lose()
    answers = refusals(node.connect("s").publish("down/d1", b"1", b"2", b"3", qos=1))
    assert [reason for reason, _ in answers] == [OK, FULL, FULL]
    assert "too many" in str(answers[1][1])


def test_no_sender_fills_it_for_others() -> None:
    """Of the last quarter nobody gets any who has a quarter: a user over all its clients and targets; those without a
    name are one.
    """
    node = DeviceNode(DevicesSettings(max_commands=8), authenticator=LetIn())
    for name in ("d1", "d2"):
        node.device(name).lose()
    device = node.device("d3")
    first, second = (node.connect(name, username="mallory") for name in ("m1", "m2"))
    first.subscribe("told")
    assert [reason_of(sender, target) for sender in (first, second) for target in ("d1", "d2", "d3")] == [OK] * 6
    assert reason_of(first, "d1", response_topic="told") is FULL
    (told,) = first.messages()
    status = json.loads(told.payload)
    assert status["state"] == "failed"
    assert status["detail"] == "mallory has 6 commands waiting; the last of 8 are for others"
    assert reason_of(second, "d3") is FULL
    assert reason_of(node.connect("ann", username="ann"), "d3") is OK
    assert [reason_of(node.connect("c"), "d3") for _ in range(2)] == [OK, FULL]
    confirm(device, device.messages())
    assert [reason_of(node.connect("c"), "d1") for _ in range(3)] == [OK, OK, FULL]


def test_no_target_fills_it_for_others() -> None:
    """Nor of a target's client, with what is behind it, that has half."""
    node = DeviceNode(DevicesSettings(max_commands=8), authenticator=LetIn())
    for name in ("gw", "d2"):
        node.device(name).lose()
    ann, eve = (node.connect(name, username=name) for name in ("ann", "eve"))
    assert [reason_of(ann, f"gw/{number}") for number in range(6)] == [OK] * 6
    assert reason_of(eve, "gw/9") is FULL
    assert reason_of(eve, "d2") is OK


def test_who_commands_through_the_api_has_the_share_of_its_user() -> None:
    """The operator's own are one sender's."""
    node = DeviceNode(DevicesSettings(max_commands=4), authenticator=LetIn())
    for name in ("d1", "d2", "ann1"):
        node.device(name).lose()
    commands = node.accompanied.commands
    assert reason_of(node.connect("c", username="ann"), "d1") is OK
    for _ in range(2):
        run(commands.submit(NewCommand("ann1", users=("ann",))))
    with pytest.raises(Refused, match="ann has 3 commands waiting"):
        run(commands.submit(NewCommand("ann1", users=("ann",))))
    run(commands.submit(NewCommand("d2")))
    with pytest.raises(Refused, match="too many"):
        run(commands.submit(NewCommand("d2")))


def test_shares_are_known_after_a_restart() -> None:
    """They are the records'."""
    node = DeviceNode(DevicesSettings(max_commands=8), authenticator=LetIn())
    for name in ("d1", "d2"):
        node.device(name).lose()
    assert [reason_of(node.connect("m", username="mallory"), "d1") for _ in range(6)] == [OK] * 6
    node.restart()
    assert reason_of(node.connect("m", username="mallory"), "d2") is FULL
    assert reason_of(node.connect("a", username="ann"), "d2") is OK


def test_an_id_is_of_the_client_that_it_is_for() -> None:
    """Whoever has taken it for a device of his own has taken it from nobody else, and learns nothing of others'."""
    node = DeviceNode(authenticator=LetIn())
    listener = node.listener()
    own, press = node.device("own"), node.device("press")
    mallory, ann = node.connect("m", username="mallory"), node.connect("a", username="ann")
    for target, sender, other in (("own", mallory, ann), ("press", ann, mallory)):
        order(sender, target, id="order-1", key="k")
        assert reason_of(other, target, user_properties=(("command-id", "order-1"),)) is WRONG
    (message,) = press.messages()
    confirm(press, [message])
    assert statuses(listener)[-1]["target"] == "press"
    own.publish("reply/order-1", b'{"detail": "mine"}', qos=1)
    named = run(node.accompanied.commands.named("order-1"))
    assert {one.target: one.detail for one in named} == {"own": "mine", "press": ""}
    node.restart()
    node.pass_time(0)
    book = node.accompanied.book
    assert sorted(one.record.target for one in book.named("order-1")) == ["own", "press"]
    book.leave("own")
    assert [one.record.target for one in book.named("order-1")] == ["press"]
    book.leave("press")
    assert book.named("order-1") == ()


@pytest.mark.parametrize("clustered", [False, True], ids=["alone", "among others"])
def test_who_has_an_id_is_not_told(*, clustered: bool) -> None:
    """To somebody else it is in use, whatever for. Keys are each user's own."""
    node = DeviceNode(authenticator=LetIn())
    device = node.device("gw")
    ann, mallory = node.connect("a", username="ann"), node.connect("m", username="mallory")
    order(ann, "gw/press", id="c1", key="k")
    confirm(device, device.messages())
    if clustered:
        among_others(node)
        node.accompanied.book.leave("gw")
    mallory.subscribe("told")
    for target in ("gw/press", "gw/own"):
        wanted = {"user_properties": (("command-id", "c1"),), "response_topic": "told"}
        assert reason_of(mallory, target, **wanted) is WRONG
        (told,) = mallory.messages()
        status = json.loads(told.payload)
        assert (status["state"], status["detail"], status["values"]) == ("failed", "the command id is in use", None)
    with pytest.raises(Refused, match=r"^the command id is in use$"):
        run(node.accompanied.commands.submit(NewCommand("gw/press", id="c1")))
    order(ann, "gw/press", id="c1")
    order(mallory, "gw/press", id="c2", key="k")
    assert (node.state("c1"), node.record("c2").idempotency_key) == ("acked", "k")


def test_nobody_takes_the_ids_of_records_to_come() -> None:
    """They can be guessed; so they are only given, not taken."""
    node = DeviceNode()
    node.device("d1")
    made = "kafka-0123abcd-0-17-1700000000000"
    assert reason_of(node.connect("m"), "d1", user_properties=(("command-id", made),)) is WRONG
    with pytest.raises(Refused, match="records of Kafka"):
        run(node.accompanied.commands.submit(NewCommand("d1", id=made)))
    order(node.connect("m"), "d1", id="kafka-mine")


def test_what_is_over_is_kept_for_a_time_and_in_bounds() -> None:
    """Then nothing is left of it, the body included; the key may be used anew."""
    node = DeviceNode(DevicesSettings(keep_commands=60, max_finished_commands=2))
    device, sender = node.device(), node.connect("s")
    for number in range(3):
        order(sender, "d1", id=f"c{number}", key=f"k{number}")
        confirm(device, device.messages())
    node.pass_time(0.25)
    assert node.count() == 2
    node.pass_time(61)
    assert node.count() == 0
    assert node.records(CacheName.COMMANDS) == 0
    order(sender, "d1", id="c0", key="k0")
    assert len(device.messages()) == 1


def test_what_was_removed_is_not_sent_by_an_old_message() -> None:
    """A device that comes back after all of that gets nothing that nobody remembers."""
    node = DeviceNode(DevicesSettings(keep_commands=1, longest_command=5))
    node.device(keep_alive=0).lose()
    order(node.connect("s"), "d1")
    node.pass_time(6)
    assert node.state("c1") == "expired"
    node.pass_time(6)
    assert node.count() == 0
    device = node.connect("d1", clean=False, expiry=3600)
    until(node, lambda: True)
    assert device.messages() == []


def test_the_last_states_are_told_again_after_a_stop() -> None:
    """A kill between the commit and the telling leaves nobody in the dark."""
    node = DeviceNode()
    listener = node.listener()
    node.device().lose()
    order(node.connect("s"), "d1")
    statuses(listener)
    listener.lose()
    node.restart()
    listener = node.connect("listener", clean=False, expiry=3600)
    assert states(listener) == ["queued"]


def test_nobody_is_answered_where_he_may_not_listen() -> None:
    """The node is no way around the rules, and never sends an order as an answer."""
    node = DeviceNode()
    device, sender = node.device(), node.connect("s")
    order(sender, "d1", response_topic="down/d1")
    assert len(device.messages()) == 1
    assert node.record("c1").response_topic == ""


RULES = """
allow publish down/d1
allow subscribe answers/#
allow subscribe read/#
allow publish answers/#
allow subscribe down/d1/#
"""


@pytest.mark.parametrize(("topic", "allowed"), [("answers/1", True), ("read/1", False), ("nobody/1", False)])
@pytest.mark.parametrize("by_will", [False, True], ids=["client", "will"])
def test_nobody_is_answered_where_he_may_not_publish_and_listen(topic: str, allowed: bool, by_will: bool) -> None:
    """What he may only read he cannot have the node say in its name; nor by a will, when nobody is connected."""
    authorizer = Ruled(RULES)
    node = DeviceNode(authorizer=authorizer)
    node.device()
    if by_will:
        will = ConnectWill(b"down/d1", b"{}", 1, properties=Properties(response_topic=topic))
        node.connect("s", will=will).lose()
    else:
        order(node.connect("s"), "d1", response_topic=topic)
    (command,) = node.commands()
    assert command.response_topic == (topic if allowed else "")


def test_many_go_with_one_commit() -> None:
    """What is lined up together becomes ``sent`` together."""
    node = DeviceNode()
    node.device().lose()
    sender = node.connect("s")
    for number in range(50):
        order(sender, "d1", id=f"c{number}")
    before = node.counters.commits
    device = node.connect("d1", clean=False, expiry=3600)
    assert len(device.messages()) == 50
    assert node.counters.commits - before < 12
