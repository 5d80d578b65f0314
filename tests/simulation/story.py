"""What happens in a world: a calm beginning, the acts of a plan, and a calm end with the reckoning.

In some worlds the members change: a node enters that nobody has heard of, and one leaves for good, is cleaned up after,
and those that are left begin new lives; subscribers come that were not there before.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from iot_mqtt.values import ProtocolVersion
from tests.simulation.clients import Keeper, Mortal, Persistent, Publisher, Reader, Subscriber
from tests.simulation.fleeting import GONE, Fleeting
from tests.simulation.ledger import Broken
from tests.simulation.plan import ALL_TROUBLES, OF_TWO, Act, Shape
from tests.simulation.platform import ONLY
from tests.simulation.troubles import Troubles
from tests.simulation.world import World

TOPICS = ("a/1", "a/2", "b/1", "b/2")
FILTERS = ("a/#", "b/+", "+/1", "#", "b/2", "a/2")
SHARED = "$share/g/b/+"
STATES = ("state/1", "state/2")
V311 = ProtocolVersion.V311
NAMES = ("a", "b", "c", "d")
#: How many messages go to a topic of their own, where some do.
FRESH = 0.4
#: How many go to the platform alone, where there is one.
FEW = 0.1
#: The greatest length of a step, in seconds.
LONGEST = 0.4
#: In how many stories something is published when all has been quiet for as many seconds: what is kept for those who
#: may be between two homes is forgotten by then.
LATER = 0.3
LONG = 45.0
#: Within how many seconds more a SUBACK comes at the latest: groups may have to wait for their place in the log, and
#: everybody for a node that does not say that it knows of them.
ANSWERED = 6.0
#: How many go to another node in an act, where all hop.
HOPS = 0.15
#: Within how many seconds a session moves, where all is well.
MOVING = 0.03


class Story:
    """One run. ``acts``: those of the seed's plan, or some of them."""

    def __init__(
        self,
        seed: int,
        shape: Shape,
        acts: Sequence[Act],
        tell: Callable[[str], None] | None = None,
        *,
        lie: bool = False,
    ) -> None:
        self.seed = seed
        names = NAMES[: shape.nodes]
        self.world = world = World(
            seed,
            names,
            tell,
            served=shape.served,
            disks=shape.disks,
            lie=lie,
            told=shape.told,
            busy=shape.busy,
            platform=shape.platform,
            waits=shape.waits,
            hopping=shape.hopping,
        )
        self.acts = acts
        #: Draws topics that nobody has published to; None: in every other world there are none.
        self._fresh = random.Random() if seed % 2 else None
        #: Draws what only the platform gets.
        self._only = random.Random() if shape.platform else None
        self.troubles = Troubles(world)
        self.watcher = Subscriber(world, "watcher")
        self.subscribers = [Subscriber(world, "s0"), Subscriber(world, "s1", V311), Subscriber(world, "s2")]
        self.members = [Subscriber(world, "g0"), Subscriber(world, "g1", V311)]
        self.publishers = [Persistent(world, "p0"), Publisher(world, "p1"), Publisher(world, "p2", V311)]
        self.keeper = Keeper(world, "k")
        self.mortals = [Mortal(world, f"m{number}") for number in range(2)]
        self.fleeting = [Fleeting(world, f"f{number}", silent=number % 2 == 0) for number in range(6 * shape.busy)]
        world.clients = [*self.durable, *self.publishers, self.keeper, *self.mortals, *self.fleeting]

    @property
    def durable(self) -> list[Subscriber]:
        return [self.watcher, *self.subscribers, *self.members]

    def run(self) -> None:
        """Raises ``Broken``."""
        self._begin(random.Random(f"{self.seed}/begin"))
        for act in self.acts:
            self._do(act)
        self.world.rng.seed(f"{self.seed}/end/world")
        self._end(random.Random(f"{self.seed}/end"))

    def _do(self, act: Act) -> None:
        world, rng, name = self.world, act.rng(self.seed), act.name
        world.rng.seed(f"{self.seed}/{act.place}/world")
        if self._fresh is not None:
            self._fresh.seed(f"{self.seed}/{act.place}/fresh")
        if self._only is not None:
            self._only.seed(f"{self.seed}/{act.place}/only")
        world.tell_act(act)
        if name in ALL_TROUBLES:
            if len(world.names) > 1 or name not in OF_TWO:
                self.troubles.make(name, rng)
        elif name == "recover":
            self.troubles.recover(rng)
        elif name == "calm":
            self.troubles.calm()
        elif name == "time":
            world.step(rng.uniform(0.01, LONGEST))
        elif name == "half_a_second":
            world.step(0.5)
        else:
            getattr(self, f"_{name}")(rng)

    def figures(self) -> Counter[str]:
        """How much has happened, to see that it does."""
        world, figures = self.world, Counter[str]()
        figures["lives"] = world.starts
        figures["lives over"] = world.overs
        figures["failed starts"] = len(world.failed_starts)
        figures["late writes kept out"] = world.kept_out
        figures["messages acknowledged"] = sum(1 for sent in world.ledger.sent.values() if sent.acknowledged)
        figures["deliveries"] = sum(account.came.total() for account in world.ledger.accounts.values())
        figures["overtaken"] = world.ledger.overtaken()
        figures["wills"] = len(world.ledger.wills)
        figures["worlds with busy nodes"] = int(bool(self.fleeting))
        if world.servers is not None:
            figures["worlds with servers"] = 1
            figures.update(world.servers.happened)
        if world.platform is not None:
            figures["worlds with a platform"] = 1
            figures.update(world.platform.happened)
        for life in world.all_lives:
            if life.cluster is None:
                continue
            status = life.cluster.status()
            figures["adoptions"] += status.adoptions
            figures["adopted clients"] += status.adopted_clients
            figures["clients moved"] += status.claims_granted.get("moved", 0)
            figures["claims refused"] += sum(status.claims_refused.values())
            figures["late subscriptions"] += status.known_late
            figures["gaps"] += sum(peer.gaps for peer in status.peers)
            figures["repairs"] += sum(peer.repairs_served for peer in status.peers)
            figures["forwarded"] += life.counters.messages_forwarded
        return figures

    # The beginning.

    def _begin(self, rng: random.Random) -> None:
        world = self.world
        for name in world.names:
            world.start(name)
            if rng.random() < 0.5:
                world.step(rng.random())
        if not world.until(lambda: len(world.running) == len(world.names), 15.0):
            raise Broken(f"start: nodes do not start: {world.failed_starts}")
        for client in self.durable:
            client.connect(rng.choice(world.running))
        if not world.until(lambda: all(one.connected for one in self.durable), 10.0):
            raise Broken("start: durable clients cannot connect in calm weather")
        self.watcher.subscribe(("wills/#", 2))
        for one in self.subscribers:
            one.subscribe(*((rng.choice(FILTERS), 2) for _ in range(2)))
        for one in self.members:
            one.subscribe((SHARED, 2))
        world.until(lambda: all(one.subscribed for one in self.durable), 10.0)

    # Acts of clients.

    def _publish(self, rng: random.Random) -> None:
        for publisher in self.publishers:
            if publisher.idle and rng.random() < 0.5:
                self._connect(rng, publisher.connect)
            for _ in range(rng.randrange(4)):
                expiry = rng.choice((1, 3)) if rng.random() < 0.1 else None
                publisher.publish(self._topic(rng), rng.choice((0, 1, 1, 1, 2, 2, 2)), expiry)
            if rng.random() < 0.02:
                publisher.leave(politely=rng.random() < 0.5)
        keeper = self.keeper
        if keeper.idle and rng.random() < 0.5:
            self._connect(rng, keeper.connect)
        keeper.publish(rng.choice(STATES))
        if rng.random() < 0.05:
            keeper.leave(politely=rng.random() < 0.5)

    def _topic(self, rng: random.Random) -> str:
        topic = rng.choice(TOPICS)
        if self._only is not None and self._only.random() < FEW:
            return ONLY
        if self._fresh is None or self._fresh.random() > FRESH:
            return topic
        return f"{topic[0]}/{self._fresh.randrange(10, 1 << 30)}"

    def _subscribers(self, rng: random.Random) -> None:
        for subscriber in self.durable:
            chance = rng.random()
            if subscriber.idle and chance < 0.3:
                self._connect(rng, subscriber.connect)
            elif chance < 0.04:
                # To another node, or to the same one, without a goodbye.
                self._connect(rng, subscriber.connect)
            elif chance < 0.06:
                subscriber.leave(politely=rng.random() < 0.5)
            elif subscriber is not self.watcher and chance < (0.09 if subscriber.subscribed else 0.5):
                subscriber.subscribe((SHARED if subscriber in self.members else rng.choice(FILTERS), 2))

    def _hop(self, rng: random.Random) -> None:
        """Without a goodbye, and with messages under way."""
        for client in (*self.publishers, *self.durable):
            if client.idle or rng.random() < HOPS:
                self._connect(rng, client.connect)

    def _mortals(self, rng: random.Random) -> None:
        for mortal in self.mortals:
            chance = rng.random()
            if mortal.idle and chance < 0.3:
                self._connect(rng, mortal.live)
            elif chance < 0.03:
                mortal.leave(politely=rng.random() < 0.3)
        for fleeting in self.fleeting:
            chance = rng.random()
            if fleeting.idle and chance < 0.1:
                self._connect(rng, partial(fleeting.come, rng=rng))
            elif chance < 0.03:
                fleeting.leave(politely=rng.random() < 0.3)

    def _connect(self, rng: random.Random, connect: Callable[..., None]) -> None:
        lives = [life for life in self.world.lives.values() if not life.ended and life.ready]
        if lives:
            connect(rng.choice(lives))

    # Acts of members.

    def _enter(self, rng: random.Random) -> None:
        del rng
        self.world.names += ("late",)
        self.world.start("late")

    def _leave(self, rng: random.Random) -> None:
        """It is not to come back."""
        world = self.world
        if len(world.names) == 1:
            return
        name = rng.choice(world.names)
        life = world.lives[name]
        world.names = tuple(one for one in world.names if one != name)
        world.trace(f"{name} leaves for good")
        world.gone.add(name)
        if life in world.running and rng.random() < 0.5:
            world.stop(life)
        else:
            world.kill(name)

    def _reborn(self, rng: random.Random) -> None:
        """A node begins anew, at any time of what is done about the one that has left."""
        world, name = self.world, rng.choice(self.world.names)
        world.kill(name)
        if rng.random() < 0.5:
            world.wait(rng.uniform(0.0, 8.0))
        world.again(name)

    def _newcomers(self, rng: random.Random) -> None:
        """Durable subscribers that nobody has heard of."""
        del rng
        world = self.world
        new = [Subscriber(world, f"new{number}") for number in range(2)]
        world.clients += new
        self.subscribers += new

    # The end.

    def _end(self, rng: random.Random) -> None:
        """Everything is put right; everybody comes and gets what is owed."""
        world = self.world
        world.trace("---- the end begins")
        self.troubles.over()
        for client in (*self.publishers, self.keeper, *self.mortals):
            client.leave()
        for fleeting in self.fleeting:
            fleeting.leave_for_good()
        # Sooner than anybody could be taken for dead, later, or much later.
        world.wait(rng.choice((0.1, 3.0, 8.0)))
        later = random.Random(f"{self.seed}/later")
        if later.random() < LATER:
            self._publish_long_after(later)

        def everybody_is_there() -> bool:
            for name in world.names:
                # Those that were stopping have needed until now for it.
                world.again(name)
            if len(world.running) < len(world.names):
                return False
            for one in self.durable:
                if one.idle:
                    one.connect(rng.choice(world.running))
            return all(one.connected for one in self.durable)

        if not world.until(everybody_is_there, 60.0):
            away = [one.name for one in self.durable if not one.connected]
            raise Broken(f"return: not everybody comes back: {away}")
        world.until(lambda: everybody_is_there() and world.ledger.settled(), 40.0)
        world.network.busy = False
        reader = Reader(world, "reader")
        world.clients.append(reader)
        reader.connect(rng.choice(world.running))
        # What must not come any more has time to come.
        world.wait(3.0)
        if not world.until(lambda: reader.answered, ANSWERED):
            raise Broken(f"answer: {reader.name} has no SUBACK")
        for _ in range(20):
            world.step(0.1)
        self._end_upward()
        world.ledger.close()
        world.ledger.check_retained(reader.found)
        world.check_sums()
        if not world.until(lambda: not any(one.has_session for one in self.fleeting), GONE):
            there = [one.name for one in self.fleeting if one.has_session]
            raise Broken(f"session: long after they had to expire there are those of {there}")

    def _end_upward(self) -> None:
        """All that was to go up has, and everybody knows it."""
        world, platform = self.world, self.world.platform
        if platform is None:
            return

        def all_up() -> bool:
            return not platform.missing(world.ledger) and not any(
                life.upward is not None and life.upward.waiting for life in world.running
            )

        if not world.until(all_up, 60.0):
            waiting = {life.name: life.upward.waiting for life in world.running if life.upward is not None}
            raise Broken(f"up: {len(platform.missing(world.ledger))} messages are missing, nodes wait for {waiting}")
        platform.close(world.ledger)

    def _publish_long_after(self, rng: random.Random) -> None:
        """What is subscribed to is wanted, too, when nobody remembers any more who had the session while it moved."""
        world, publisher = self.world, self.publishers[0]

        def all_run() -> bool:
            for name in world.names:
                world.again(name)
            return len(world.running) == len(world.names)

        if not world.until(all_run, 60.0):
            raise Broken(f"return: not all nodes run: {[life.name for life in world.running]} do")
        for client in self.durable:
            client.connect(rng.choice(world.running))
        world.wait(rng.choice((0.1, 5.0)))
        for client in self.durable:
            client.connect(rng.choice(world.running))
        world.step(rng.uniform(0.0, MOVING))
        unlucky = rng.choice(world.running)
        if rng.random() < 0.5:
            world.kill(unlucky.name)
        else:
            unlucky.door.shut = True
            world.step(0.1)
        for client in self.durable:
            client.leave()
        world.wait(2.0)
        unlucky.door.shut = False
        if not world.until(all_run, 60.0):
            raise Broken(f"return: not all nodes run: {[life.name for life in world.running]} do")
        world.wait(LONG)
        publisher.connect(rng.choice(world.running))
        if not world.until(lambda: publisher.connected, 20.0):
            raise Broken("return: nobody can publish")
        for topic in TOPICS:
            publisher.publish(topic, rng.choice((1, 2)))
        world.wait(2.0)
        publisher.leave()
