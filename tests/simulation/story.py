"""What happens in a world: a calm beginning, a storm of things drawn by the seed, and a calm end with the reckoning.

In some worlds the members change: a node enters that nobody has heard of, and one leaves for good, is cleaned up after,
and those that are left begin new lives; subscribers come that were not there before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.simulation.clients import Mortal, Persistent, Publisher, Subscriber
from tests.simulation.ledger import Broken
from tests.simulation.messaging import Weather
from tests.simulation.sharedgrid import Speed
from tests.simulation.world import World

TOPICS = ("a/1", "a/2", "b/1", "b/2")
FILTERS = ("a/#", "b/+", "+/1", "#", "b/2", "a/2")
#: Steps of the storm, and their greatest length in seconds.
STEPS = 60
LONGEST = 0.4
#: The same of the storm in which the members change.
AFTER_STEPS = 25


class Story:
    """One run."""

    def __init__(self, seed: int, tell: Callable[[str], None] | None = None, steps: int = STEPS) -> None:
        rng_names = ("a", "b", "c", "d")
        self.world = world = World(seed, rng_names[: 2 + seed % 2 + (seed % 7 == 0)], tell)
        self.rng = world.rng
        self.steps = steps
        self.watcher = Subscriber(world, "watcher")
        self.subscribers = [Subscriber(world, f"s{number}") for number in range(3)]
        self.publishers = [Persistent(world, "p0"), Publisher(world, "p1"), Publisher(world, "p2")]
        self.mortals = [Mortal(world, f"m{number}") for number in range(2)]
        world.clients = [self.watcher, *self.subscribers, *self.publishers, *self.mortals]
        self.changing = seed % 5 in (1, 2)
        self._troubles: list[tuple[int, Callable[[], None]]] = [
            (6, self._kill),
            (3, self._stop),
            (6, self._pause),
            (5, self._part),
            (5, self._cut),
            (6, self._weather),
            (3, self._suspend),
            (2, self._expire),
            (4, self._slow),
            (2, self._shut),
            (3, self._break_flow),
        ]

    def run(self) -> None:
        """Raises ``Broken``."""
        self._begin()
        self._storm(self.steps)
        if self.changing:
            self._change_members()
        self._end()

    def _storm(self, steps: int) -> None:
        for _ in range(steps):
            self._act()
            self.world.step(self.rng.uniform(0.01, LONGEST))

    def figures(self) -> Counter[str]:
        """How much has happened, to see that it does."""
        world, figures = self.world, Counter[str]()
        figures["lives"] = world.starts
        figures["lives over"] = world.overs
        figures["failed starts"] = len(world.failed_starts)
        figures["late writes kept out"] = world.grid.kept_out
        figures["messages acknowledged"] = sum(1 for sent in world.ledger.sent.values() if sent.acknowledged)
        figures["deliveries"] = sum(account.came.total() for account in world.ledger.accounts.values())
        figures["wills"] = len(world.ledger.wills)
        for life in world.all_lives:
            if life.cluster is None:
                continue
            status = life.cluster.status()
            figures["adoptions"] += status.adoptions
            figures["adopted clients"] += status.adopted_clients
            figures["clients moved"] += status.claims_granted.get("moved", 0)
            figures["claims refused"] += sum(status.claims_refused.values())
            figures["weak subscriptions"] += status.known_late
            figures["gaps"] += sum(peer.gaps for peer in status.peers)
            figures["repairs"] += sum(peer.repairs_served for peer in status.peers)
            figures["forwarded"] += life.counters.messages_forwarded
        return figures

    # The parts.

    def _begin(self) -> None:
        world, rng = self.world, self.rng
        for name in world.names:
            world.start(name)
            if rng.random() < 0.5:
                world.step(rng.random())
        if not world.until(lambda: len(world.running) == len(world.names), 15.0):
            raise Broken(f"nodes do not start: {world.failed_starts}")
        for client in (self.watcher, *self.subscribers):
            client.connect(rng.choice(world.running))
        if not world.until(lambda: all(one.connected for one in (self.watcher, *self.subscribers)), 10.0):
            raise Broken("durable clients cannot connect in calm weather")
        self.watcher.subscribe(("wills/#", 2))
        for one in self.subscribers:
            one.subscribe(*((rng.choice(FILTERS), 2) for _ in range(2)))
        world.until(lambda: all(one.subscribed for one in (self.watcher, *self.subscribers)), 10.0)

    def _act(self) -> None:
        rng, world = self.rng, self.world
        self._publish()
        for subscriber in (self.watcher, *self.subscribers):
            chance = rng.random()
            if subscriber.idle and chance < 0.3:
                self._connect(subscriber.connect)
            elif chance < 0.04:
                # To another node, or to the same one, without a goodbye.
                self._connect(subscriber.connect)
            elif chance < 0.06:
                subscriber.leave(politely=rng.random() < 0.5)
            elif subscriber is not self.watcher and chance < (0.09 if subscriber.subscribed else 0.5):
                subscriber.subscribe((rng.choice(FILTERS), 2))
        for mortal in self.mortals:
            chance = rng.random()
            if mortal.idle and chance < 0.3:
                self._connect(mortal.live)
            elif chance < 0.03:
                mortal.leave(politely=rng.random() < 0.3)
        if rng.random() < 0.25:
            self._trouble()
        for name in world.names:
            life = world.lives[name]
            if life.ended and rng.random() < 0.15:
                world.again(name)
            elif life.paused and rng.random() < 0.12:
                world.resume(name)
            elif life.door.shut and rng.random() < 0.3:
                life.door.shut = False
            elif not life.messaging.flowing and rng.random() < 0.4 and not life.ended:
                life.clock.arrive(life.messaging.restore_flow)
            elif name in self.world.ensemble._away and not life.paused and not life.ended and rng.random() < 0.15:
                world.ensemble.heal(name)
        if rng.random() < 0.08:
            self._calm()

    def _publish(self) -> None:
        rng = self.rng
        for publisher in self.publishers:
            if publisher.idle and rng.random() < 0.5:
                self._connect(publisher.connect)
            for _ in range(rng.randrange(4)):
                publisher.publish(rng.choice(TOPICS), rng.choice((1, 2)))
            if rng.random() < 0.02:
                publisher.leave(politely=rng.random() < 0.5)

    # Other members.

    def _change_members(self) -> None:
        """Somebody enters, somebody leaves for good; the others begin anew, at any time of what is done about that."""
        world, rng = self.world, self.rng
        if rng.random() < 0.5:
            self._enter("late")
            self._storm(AFTER_STEPS)
        if len(world.names) > 1:
            self._leave(rng.choice(world.names))
        for _ in range(rng.choice((1, 10, 40))):
            # Sooner or later than it is cleaned up after.
            self._publish()
            world.step(0.5)
        for name in world.names:
            if rng.random() < 0.7:
                world.kill(name)
                if rng.random() < 0.5:
                    world.step(rng.uniform(0.0, 8.0))
                world.again(name)
        self._newcomers()
        self._storm(AFTER_STEPS)

    def _enter(self, name: str) -> None:
        self.world.names += (name,)
        self.world.start(name)

    def _leave(self, name: str) -> None:
        """It is not to come back."""
        world = self.world
        life = world.lives[name]
        world.names = tuple(one for one in world.names if one != name)
        world.trace(f"{name} leaves for good")
        world.gone.add(name)
        if life in world.running and self.rng.random() < 0.5:
            world.stop(life)
        else:
            world.kill(name)

    def _newcomers(self) -> None:
        """Durable subscribers that nobody has heard of."""
        world = self.world
        new = [Subscriber(world, f"new{number}") for number in range(2)]
        world.clients += new
        self.subscribers += new

    def _connect(self, connect: Callable[..., None]) -> None:
        lives = [life for life in self.world.lives.values() if not life.ended and life.ready]
        if lives:
            connect(self.rng.choice(lives))

    def _calm(self) -> None:
        self.world.trace("the weather is fine")
        self.world.network.heal()
        self.world.network.weather.clear()
        for life in self.world.lives.values():
            life.door.speed = Speed()

    def _end(self) -> None:
        """Everything is put right; everybody comes and gets what is owed."""
        world, rng = self.world, self.rng
        world.trace("---- the end begins")
        self._calm()
        for life in world.lives.values():
            # Also for those that are not to come back: one that stops writes what it has, and does not go before that.
            life.door.shut = False
        for name in world.names:
            life = world.lives[name]
            if not life.ended:
                if life.paused:
                    world.resume(name)
                elif name in world.ensemble._away:
                    world.ensemble.heal(name)
            if not life.ended and not life.messaging.flowing:
                life.messaging.restore_flow()
        for client in (*self.publishers, *self.mortals):
            client.leave()
        # Sooner than anybody could be taken for dead, later, or much later.
        world.step(rng.choice((0.1, 3.0, 8.0)))

        def everybody_is_there() -> bool:
            for name in world.names:
                # Those that were stopping have needed until now for it.
                world.again(name)
            if len(world.running) < len(world.names):
                return False
            for one in (self.watcher, *self.subscribers):
                if one.idle:
                    one.connect(rng.choice(world.running))
            return all(one.connected for one in (self.watcher, *self.subscribers))

        if not world.until(everybody_is_there, 60.0):
            raise Broken(f"not everybody comes back: {[one.name for one in world.clients if not one.connected]}")
        world.until(lambda: everybody_is_there() and world.ledger.settled(), 40.0)
        # What must not come any more has time to come.
        world.step(3.0)
        for _ in range(20):
            world.step(0.1)
        world.ledger.close()
        world.check_sums()

    # Trouble.

    def _trouble(self) -> None:
        weights = [weight for weight, _ in self._troubles]
        ((_, make),) = self.rng.choices(self._troubles, weights)
        if len(self.world.names) > 1 or make not in (self._part, self._cut, self._weather):
            make()

    def _name(self) -> str:
        return self.rng.choice(self.world.names)

    def _pair(self) -> tuple[str, str]:
        one, other = self.rng.sample(self.world.names, 2)
        return one, other

    def _kill(self) -> None:
        self.world.kill(self._name())

    def _stop(self) -> None:
        life = self.world.lives[self._name()]
        if life in self.world.running:
            self.world.stop(life)

    def _pause(self) -> None:
        self.world.pause(self._name())

    def _part(self) -> None:
        one, other = self._pair()
        self.world.trace(f"{one} and {other} are parted")
        self.world.network.part(one, other)

    def _cut(self) -> None:
        one, other = self._pair()
        self.world.trace(f"{one} does not reach {other}")
        self.world.network.cut(one, other)

    def _weather(self) -> None:
        pair = self._pair()
        rng = self.rng
        weather = Weather(
            (0.001, rng.choice((0.01, 0.5))), rng.choice((0.0, 0.1, 0.5)), rng.choice((0.0, 0.2)), rng.random(), 1.0
        )
        self.world.trace(f"bad weather from {pair[0]} to {pair[1]}: {weather}")
        self.world.network.weather[pair] = weather

    def _suspend(self) -> None:
        name = self._name()
        if not self.world.lives[name].ended and not self.world.lives[name].paused:
            self.world.trace(f"{name} loses the registry")
            self.world.ensemble.suspend(name)

    def _expire(self) -> None:
        name = self._name()
        if not self.world.lives[name].ended and not self.world.lives[name].paused:
            self.world.trace(f"{name}'s session with the registry expires")
            self.world.ensemble.expire(name)

    def _slow(self) -> None:
        name = self._name()
        self.world.trace(f"the grid is slow for {name}")
        self.world.lives[name].door.speed = Speed(0.02, 0.4)

    def _shut(self) -> None:
        name = self._name()
        self.world.trace(f"the grid does not answer {name}")
        self.world.lives[name].door.shut = True

    def _break_flow(self) -> None:
        life = self.world.lives[self._name()]
        if not life.ended and not life.paused and life.messaging.flowing:
            self.world.trace(f"messages of {life.name} do not flow")
            life.messaging.break_flow()
