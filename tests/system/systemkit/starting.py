"""Starting brokers so that they end with the test, whatever happens in it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

from systemkit.process import BrokerProcess, Options

#: Starts one more broker: ``start_broker(tls=..., settings={...}, mosquitto=[...])``.
StartBroker = Callable[..., BrokerProcess]


@contextlib.contextmanager
def brokers(folder: Path) -> Iterator[StartBroker]:
    """Gives a ``StartBroker``; at the end every broker is closed, and has to end well."""
    started: list[BrokerProcess] = []
    numbers = itertools.count(1)

    def start(**options: object) -> BrokerProcess:
        broker = BrokerProcess(folder / f"broker-{next(numbers)}", Options(**options))  # type: ignore[arg-type]
        started.append(broker)
        return broker.start()

    try:
        yield start
    except BaseException:
        for broker in started:
            broker.reap()
        raise
    with contextlib.ExitStack() as ends:  # every broker is closed, even if an earlier one complains
        for broker in started:
            ends.callback(broker.close)
