"""Micro benchmark of routing and retained messages: ``python benchmarks/micro/bench_topics.py [--scale N]``.

Prints one line per figure. Everything is in this process and on one core; nothing is asserted.
"""

from __future__ import annotations

import argparse
import gc
import tracemalloc
from collections.abc import Callable
from time import perf_counter

from iot_mqtt.topics import RetainedIndex, RoundRobin, Routes, SharedGroup
from iot_mqtt.topics.route import Route
from iot_mqtt.values import Message, Subscription


class Client:
    """The least that can receive."""

    __slots__ = ("client_id", "inflight_count")

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.inflight_count = 0


def timed(what: str, operations: int, work: Callable[[], object]) -> None:
    """Run once and print the rate."""
    gc.collect()
    start = perf_counter()
    work()
    took = perf_counter() - start
    print(f"{what:<46} {operations / took:>14,.0f} /s {took / operations * 1e6:>10.3f} us")


def bench_memory(scale: int) -> None:
    """Bytes per subscription beyond the Subscription itself."""
    forms = {"exact": "plant/line{0}/device/{0}/command", "wildcard": "device/{0}/command/#"}
    for name, form in forms.items():
        clients = [Client(f"c{number}") for number in range(scale)]
        wanted = [Subscription(form.format(number), 1) for number in range(scale)]
        tracemalloc.start()
        routes: Routes[Client] = Routes()
        for client, subscription in zip(clients, wanted, strict=True):
            routes.subscribe(client, subscription)
        used = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        print(f"{'memory per ' + name + ' subscription':<46} {used / scale:>14,.0f} B")


def bench_routes(scale: int) -> None:
    """Subscribing, hits, misses, and subscription churn beside traffic."""
    clients = [Client(f"c{number}") for number in range(scale)]
    exact = [Subscription(f"plant/device/{number}/command", 1) for number in range(scale)]
    routes: Routes[Client] = Routes()

    def subscribe_all() -> None:
        for client, subscription in zip(clients, exact, strict=True):
            routes.subscribe(client, subscription)

    timed("subscribe, exact", scale, subscribe_all)
    for number in range(100):
        routes.subscribe(clients[number], Subscription(f"plant/+/{number}/command"))
    topics = [f"plant/device/{number}/command".encode() for number in range(min(scale, 60_000))]
    match = routes.match

    def look_up() -> None:
        for topic in topics:
            match(topic)

    timed("match, miss (4 levels, 100 wildcard filters)", len(topics), look_up)
    timed("match, hit", len(topics), look_up)
    unknown = [f"nobody/{number}".encode() for number in range(2 * 65_536)]

    def look_up_unknown() -> None:
        for topic in unknown:
            match(topic)

    timed("match, topics nobody wants, full memo", len(unknown), look_up_unknown)
    look_up()
    other = Client("other")

    def churn(form: str) -> Callable[[], None]:
        def work() -> None:
            for number in range(200):
                routes.subscribe(other, Subscription(form.format(number)))
                routes.unsubscribe(other, form.format(number))

        return work

    timed("subscribe + unsubscribe, exact, warm memo", 200, churn("other/{}"))
    timed("subscribe + unsubscribe, wildcard, warm memo", 200, churn("other/{}/+"))
    look_up()
    timed("drop 1 client of many", 1, lambda: routes.drop(clients[5], [exact[5].filter, "plant/+/5/command"]))
    for client in clients[:50]:
        routes.subscribe(client, Subscription("fan/out"))
        routes.subscribe(client, Subscription("fan/#"))
    timed("match, miss, 50 overlapping receivers", 1, lambda: match(b"fan/out"))


def bench_shared(count: int) -> None:
    """Picking one by one and by the run."""
    group: SharedGroup[Client] = SharedGroup("g", "t", RoundRobin())
    for number in range(10):
        group.join(Route(Client(f"c{number}"), Subscription("$share/g/t")))

    def always(_client: Client) -> bool:
        return True

    def one_by_one() -> None:
        for _ in range(count):
            group.pick("p", b"t", always)

    def by_the_run() -> None:
        for _ in range(count // 100):
            group.pick_many(100, "p", b"t", always)

    timed("shared pick, round robin of 10", count, one_by_one)
    timed("shared pick_many(100), per message", count, by_the_run)


def bench_retained(scale: int) -> None:
    """Setting, and four readers of everything; then filters that must seek."""
    messages = [Message(f"P/{number * 7919 % scale:07d}".encode(), b"x" * 64) for number in range(scale)]
    index = RetainedIndex()

    def set_all() -> None:
        for message in messages:
            index.set(message.topic, message)

    def read_all() -> None:
        for _ in range(4):
            for _page in index.iterate("P/#"):
                pass

    timed("retained set, new topics", scale, set_all)
    timed("retained set, known topics", scale, set_all)
    timed("retained sort in", scale, index.settle)
    timed("retained read by P/#, 4 readers", 4 * scale, read_all)
    timed("retained read by P/+, 1 reader", scale, lambda: index.page("P/+", None, scale))
    devices = scale // 10
    for number in range(devices):
        for leaf in range(10):
            topic = f"d/{number}/{leaf}".encode()
            index.set(topic, Message(topic, b""))
    index.settle()
    timed("retained read by d/+/5 (1 of 10), per hit", devices, lambda: index.page("d/+/5", None, devices))

    def page_while_setting() -> None:
        for number in range(1_000):
            topic = f"n/{number}".encode()
            index.set(topic, Message(topic, b""))
            index.scan("d/#", b"d/5", 100)

    timed("retained set + page of 100", 1_000, page_while_setting)

    def remove_all() -> None:
        for message in messages:
            index.remove(message.topic)

    timed("retained remove", scale, remove_all)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=100_000, help="subscriptions and retained messages")
    scale = parser.parse_args().scale
    bench_memory(scale)
    bench_routes(scale)
    bench_shared(scale)
    bench_retained(scale)


if __name__ == "__main__":
    main()
