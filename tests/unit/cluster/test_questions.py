"""Questions by name: one node asks, all others answer, and whoever cannot is named with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred

from tests.unit.cluster.nodekit import World


def ask(world: World, name: str, question: str = "who", body: bytes = b"?") -> Mapping[int, bytes | str]:
    found: list[Mapping[int, bytes | str]] = []
    world[name].cluster.questions.ask_all(question, body).addCallback(found.append)
    world.until(lambda: bool(found), 30.0)
    return found[0]


def three() -> World:
    world = World("a", "b", "c")
    for name in "abc":
        world[name].cluster.questions.answers["who"] = lambda body, name=name: body + name.encode()  # type: ignore[misc]
    return world


def test_every_other_member_answers() -> None:
    """The one that asks is not asked."""
    world = three()
    number = {name: world[name].number for name in "abc"}
    assert ask(world, "a") == {number["b"]: b"?b", number["c"]: b"?c"}
    assert ask(world, "c") == {number["a"]: b"?a", number["b"]: b"?b"}


def test_a_node_alone_has_no_answers() -> None:
    """And does not wait for any."""
    assert ask(World("a"), "a") == {}


def test_a_node_that_does_not_know_the_question_says_so() -> None:
    """As one of an earlier version would."""
    world = three()
    del world["b"].cluster.questions.answers["who"]
    answers = ask(world, "a")
    assert answers[world["b"].number] == "this node does not know what 'who' is"
    assert answers[world["c"].number] == b"?c"


def test_a_node_that_fails_says_why() -> None:
    """It goes on."""
    world = three()

    def fail(body: bytes) -> bytes:
        raise ValueError("out of cheese")

    world["b"].cluster.questions.answers["who"] = fail
    assert ask(world, "a")[world["b"].number] == "it failed there: out of cheese"
    del world["b"].cluster.questions.answers["who"]
    assert ask(world, "c")[world["a"].number] == b"?a"


def test_a_node_that_is_paused_does_not_hold_up_the_rest() -> None:
    """It is named as the one that gave no answer."""
    world = three()
    world.network.pause("b")
    answers = ask(world, "a")
    assert answers[world["c"].number] == b"?c"
    assert "gave no answer" in str(answers[world["b"].number])


def test_a_node_whose_life_is_over_does_not_wait_for_answers() -> None:
    """Its links are closed, and nobody looks at the time for them: no answer would ever be late."""
    world = three()
    world.run(world["a"].cluster.stop())
    answers = ask(world, "a")
    assert [str(one) for one in answers.values()] == ["the links are closed"] * 2


def test_an_answer_may_take_its_time() -> None:
    """It fails there as others do."""
    world = three()
    waiting: list[Deferred[bytes]] = []

    async def later(body: bytes) -> bytes:
        waiting.append(Deferred())
        return body + await waiting[-1]

    async def fail(body: bytes) -> bytes:
        raise ValueError("out of cheese")

    world["b"].cluster.questions.later["slow"] = later
    world["c"].cluster.questions.later["slow"] = fail
    found: list[Mapping[int, bytes | str]] = []
    world["a"].cluster.questions.ask_all("slow", b"?", 20.0).addCallback(found.append)
    world.until(lambda: bool(waiting), 30.0)
    world.pass_time(10.0)
    assert not found
    waiting[0].callback(b"!")
    world.until(lambda: bool(found), 30.0)
    assert found[0] == {world["b"].number: b"?!", world["c"].number: "it failed there: out of cheese"}
