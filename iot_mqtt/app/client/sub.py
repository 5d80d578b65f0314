"""``iot-mqtt sub``: subscribe, and print what comes."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable
from types import FrameType
from typing import Any, Final

import click

from iot_mqtt.app.client import words
from iot_mqtt.app.client.client import Client
from iot_mqtt.app.client.errors import PASSING, ClientError, NoConnection, NotTaken, Rejected, TookTooLong
from iot_mqtt.app.client.options import Link, MosquittoCommand, Setup, check, connection_options, failing, setup
from iot_mqtt.app.client.output import Output, output, output_options
from iot_mqtt.app.terminal import NumberRange, plain
from iot_mqtt.codec import NO_PROPERTIES, Properties, Publish, Request, Subscribe, Unsubscribe
from iot_mqtt.errors import MqttError
from iot_mqtt.topics import matches, validate_filter
from iot_mqtt.values import ProtocolVersion

#: Seconds before the second and each further attempt to connect again.
_BACK_OFF: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
_HANDLING: Final = {"always": 0, "new": 1, "never": 2, "0": 0, "1": 1, "2": 2}


class _Enough(Exception):
    """What was wanted has come."""


@click.command("sub", cls=MosquittoCommand)
@click.option("-t", "--topic", "topics", multiple=True, help="Filter to subscribe to; repeat for more.")
@click.option("-T", "--filter-out", "filtered", multiple=True, help="Do not print what this filter matches.")
@click.option("-U", "--unsubscribe", "unwanted", multiple=True, help="Unsubscribe from this filter first.")
@click.option("-q", "--qos", type=click.IntRange(0, 2), default=0, show_default=True)
@click.option("-C", "--count", type=click.IntRange(1), help="Stop after so many messages.")
@click.option(
    "-W", "--timeout", type=NumberRange(0, min_open=True), help="Stop after so many seconds, with exit code 27."
)
@click.option("-E", "--exit-after-suback", "only_subscribe", is_flag=True, help="Stop when the subscriptions are made.")
@click.option("-R", "--no-retained", "fresh", is_flag=True, help="Do not print retained messages.")
@click.option(
    "--retained-only",
    is_flag=True,
    help="Print retained messages, and stop at the first other one; -W SECONDS ends it where none comes.",
)
@click.option("--remove-retained", is_flag=True, help="Delete each retained message that comes.")
@click.option("--no-local", is_flag=True, help="Not what this client publishes itself. MQTT 5.")
@click.option("--retain-as-published", is_flag=True, help="Keep the retain flag as it was published. MQTT 5.")
@click.option(
    "--retain-handling",
    type=click.Choice(tuple(_HANDLING)),
    default="always",
    help="When retained messages are sent: always, new (subscriptions only), never. MQTT 5.",
)
@click.option("--subscription-id", type=click.IntRange(1, 268_435_455), help="Subscription identifier. MQTT 5.")
@click.option("--user-property", "users", nargs=2, multiple=True, metavar="NAME VALUE", help="Of SUBSCRIBE. MQTT 5.")
@click.option("--receive-maximum", type=click.IntRange(1, 0xFFFF), help="Unacknowledged messages at once. MQTT 5.")
@click.option("--topic-alias-maximum", type=click.IntRange(0, 0xFFFF), help="Aliases that the broker may use. MQTT 5.")
@click.option("--reconnect/--no-reconnect", default=True, help="Connect again when the connection is lost.")
@output_options
@connection_options
def sub(**options: Any) -> None:
    """Subscribe and print messages. Each is acknowledged when it is printed.

    \b
    iot-mqtt sub -t 'plant/#' -v
    iot-mqtt sub -t 'plant/+/state' -q 1 -c -i watcher --json
    iot-mqtt sub -t plant/line1 -C 1 -W 10 -F '%I %t %p'

    Exit codes: 0 stopped as asked, or by a signal; 2 the command was wrong; 3 no connection, or lost; 4 the broker
    refused the client; 5 the broker refused the subscription; 27 the time of -W is over; 1 anything else.
    """  # noqa: D301 - a sign of click's
    aliases, window = options["topic_alias_maximum"], options["receive_maximum"]
    chosen = setup("sub", options, topic_alias_maximum=aliases, receive_maximum=window)
    printed = output(
        verbose=options["verbose"], format=options["format"], no_end=options["no_end"], as_json=options["as_json"]
    )
    reader = _Reader(chosen, options, printed)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        reader.run()
    except ClientError as error:
        raise failing(chosen.quiet, error) from error
    except BrokenPipeError:
        raise  # whoever reads what is printed has had enough; click knows
    except OSError as error:
        raise failing(chosen.quiet, ClientError(f"cannot print: {error.strerror or error}")) from error


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _check(filters: Iterable[str]) -> None:
    """Whether they are filters at all; how many levels they may have is for the broker to say."""
    for one in filters:
        try:
            validate_filter(one, 0xFFFF)
        except MqttError as error:
            raise click.UsageError(f"{plain(one)!r} is no filter: {error}") from error


class _Reader:
    """Connects, subscribes and prints, again after each lost connection, until there is no reason to go on."""

    def __init__(self, chosen: Setup, options: dict[str, Any], printed: Output) -> None:
        self._setup = chosen
        self._options = options
        self._output = printed
        self._left: int | None = options["count"]
        self._until = None if options["timeout"] is None else time.monotonic() + options["timeout"]
        self._filters = self._requests()
        self._link: Link | None = None
        #: Whether this connection came as far as to wait for messages, and whether any did.
        self._works = self._worked = False

    def run(self) -> None:
        failures = 0
        while True:
            self._works = False
            try:
                self._connected()
            except (_Enough, KeyboardInterrupt):
                self._leave()
                return
            except TookTooLong:
                self._leave()
                raise
            except (NoConnection, Rejected) as error:
                self._drop()
                failures = 0 if self._works else failures
                if not self._may_come_again(error):
                    raise
                pause = _BACK_OFF[min(failures, len(_BACK_OFF) - 1)]
                self._setup.warn(f"{error}; connecting again in {pause:g} s")
                failures += 1
                self._pause(pause)
            except BaseException:
                self._drop()
                raise

    def _may_come_again(self, error: NoConnection | Rejected) -> bool:
        """What never worked is for a person to look at, not for patience; and what the broker decided stays."""
        if not self._options["reconnect"] or not self._worked:
            return False
        return isinstance(error, NoConnection) or error.reason in PASSING

    def _pause(self, seconds: float) -> None:
        if self._until is not None and time.monotonic() + seconds >= self._until:
            time.sleep(max(0.0, self._until - time.monotonic()))
            raise TookTooLong("the time is over")
        time.sleep(seconds)

    def _connected(self) -> None:
        """One connection, to its end; always raises."""
        self._link = None
        link = self._link = self._setup.open()
        client, patience = link.client, self._setup.patience
        if self._options["unwanted"]:
            client.unsubscribe(self._options["unwanted"], patience)
        if self._filters:
            self._subscribe(client, patience)
        if self._options["only_subscribe"]:
            raise _Enough
        self._works = self._worked = True
        while True:
            try:
                self._print(client)
                client.step(self._until)
            except (NoConnection, Rejected):
                self._print(client)
                raise
            if self._until is not None and time.monotonic() >= self._until:
                self._print(client)
                raise TookTooLong("the time is over")

    def _requests(self) -> tuple[Request, ...]:
        options, version = self._options, self._setup.connect.version
        named = options["topics"] or tuple(filter(None, (self._setup.topic,)))
        handling = _HANDLING[options["retain_handling"]]
        five = version is ProtocolVersion.V5
        if not five and any(
            (
                options["no_local"],
                options["retain_as_published"],
                handling,
                options["subscription_id"],
                options["users"],
            )
        ):
            raise click.UsageError("options of a subscription need MQTT 5: -V 5")
        _check((*named, *options["filtered"]))
        found = tuple(
            Request(one, options["qos"], options["no_local"], options["retain_as_published"], handling) for one in named
        )
        if not found and not options["unwanted"] and not options["keep"]:
            raise click.UsageError("to what? -t FILTER")
        for one in options["unwanted"]:
            check(Unsubscribe(1, (one,)), version)
        if found:
            check(Subscribe(1, found, self._asked()), version)
        return found

    def _asked(self) -> Properties:
        """The properties of SUBSCRIBE."""
        identifier, users = self._options["subscription_id"], self._options["users"]
        if identifier is None and not users:
            return NO_PROPERTIES
        return Properties(subscription_identifiers=() if identifier is None else (identifier,), user_properties=users)

    def _subscribe(self, client: Client, patience: float) -> None:
        answer = client.subscribe(self._filters, self._asked(), patience)
        said, five = answer.properties.reason_string, client.protocol.five
        refused = [
            f"{plain(request.filter)}: {words.refused_filter(reason, five, said)}"
            for request, reason in zip(self._filters, answer.reasons, strict=False)
            if reason >= 0x80
        ]
        if len(refused) == len(self._filters):
            raise NotTaken(f"no subscription to {'; '.join(refused)}")
        for one in refused:
            self._setup.warn(f"no subscription to {one}")

    def _print(self, client: Client) -> None:
        """Print what is there, then acknowledge it."""
        done: list[Publish] = []
        try:
            while client.arrived:
                message = client.arrived[0]
                if self._options["retained_only"] and not message.retain:
                    raise _Enough
                if self._left == 0:
                    raise _Enough
                client.arrived.popleft()
                self._one(client, message)
                done.append(message)
            if self._left == 0:
                raise _Enough
        finally:
            self._output.flush()
            for message in done:
                client.protocol.accept(message)

    def _one(self, client: Client, message: Publish) -> None:
        if self._options["fresh"] and message.retain:
            return
        topic = message.topic.decode()
        if any(matches(one, topic) for one in self._options["filtered"]):
            return
        if self._options["remove_retained"] and message.retain:
            client.publish(Publish(message.topic, b"", message.qos, retain=True))
        self._output.write(message)
        if self._left is not None:
            self._left -= 1

    def _leave(self) -> None:
        """Finish what was begun, and say goodbye."""
        link, self._link = self._link, None
        if link is None:
            return
        try:
            link.client.release(1.0)
            if self._options["remove_retained"]:
                link.client.settle(5.0)
            link.client.close(properties=self._setup.disconnect)
        except ClientError as error:
            self._setup.note(str(error))

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.client.drop()
