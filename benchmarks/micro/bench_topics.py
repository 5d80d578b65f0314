"""Micro benchmark of routing and retained messages: ``python benchmarks/micro/bench_topics.py [--scale N]``.

Prints one line per figure. Everything is in this process and on one core; nothing is asserted.
"""

from __future__ import annotations

import argparse
import gc
import tracemalloc
from collections.abc import Callable
from functools import partial
from time import perf_counter

from iot_mqtt.topics import RetainedIndex, RoundRobin, Routes, SharedGroup
from iot_mqtt.topics.route import Route
from iot_mqtt.topics.trie import FilterTrie
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


def bench_trie() -> None:
    """Lookups among the filters of a fleet; then filters of many levels, all of which begin as the topic does."""
    fleet: FilterTrie[int] = FilterTrie()
    for number in range(500):
        for form in ("line{0}/+/device/#", "a/b{0}/c/+", "plant/{0}/line/+/+/state", "site/+/dev{0}/#"):
            fleet.put(form.format(number), number)
    forms = ("line{0}/x/device/7", "a/b{0}/c/x", "plant/{0}/line/2/x/state", "site/x/dev{0}/y", "nobody/{0}/x")
    topics = [form.format(number) for number in range(500) for form in forms]

    def look_up() -> None:
        for topic in topics * 10:
            fleet.match(topic)

    timed("trie, lookup, fleet of 2,000 filters", 10 * len(topics), look_up)
    branches, tail = 13, 105
    filters = [
        "/".join(["+" if number >> bit & 1 else "a" for bit in range(branches)] + ["+"] * (tail - 1) + ["b"])
        for number in range(2**branches)
    ]
    deep: FilterTrie[str] = FilterTrie()
    below = [f"x/{number}/" + "/".join(["+"] * 118) for number in range(5_000)]

    def put(trie: FilterTrie[str], all_of_them: list[str]) -> Callable[[], None]:
        def work() -> None:
            for filter in all_of_them:
                trie.put(filter, filter)

        return work

    timed("trie, put, 8,192 filters of 118 levels", len(filters), put(deep, filters))
    begin = "a/" * branches
    for what, topic in {
        "one level too short": begin + "/".join(["z"] * (tail - 1)),
        "another last level": begin + "/".join(["z"] * tail),
        "all match": begin + "/".join(["z"] * (tail - 1) + ["b"]),
    }.items():
        timed(f"trie, one lookup among them, {what}", 1, partial(deep.match, topic))
    flat: FilterTrie[str] = FilterTrie()
    tracemalloc.start()
    put(flat, below)()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(f"{'trie, memory per filter of 120 levels':<46} {used / len(below):>14,.0f} B")
    again: FilterTrie[str] = FilterTrie()
    timed("trie, put, 5,000 filters of 120 levels", len(below), put(again, below))

    def remove() -> None:
        for filter in below:
            again.remove(filter)

    timed("trie, remove, 5,000 filters of 120 levels", len(below), remove)


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
            page = index.scan("P/#", None, 1_000)
            while page.after is not None:
                page = index.scan("P/#", page.after, 1_000)

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
    bench_trie()
    bench_shared(scale)
    bench_retained(scale)


if __name__ == "__main__":
    main()
