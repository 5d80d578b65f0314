"""Loading, enabling, reloading and rolling back, inline and in a process alike."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import weakref
from functools import partial
from importlib.metadata import Distribution
from itertools import pairwise

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.plugins.catalog import Plugins
from iot_mqtt.plugins.finding import distributions
from iot_mqtt.plugins.info import PluginError
from iot_mqtt.plugins.running import NotAvailable
from iot_mqtt.plugins.shelf import Shelf
from iot_mqtt.ports.alarms import AlarmKind
from iot_mqtt.sdk import Command
from tests.reactor import reactor, run, turn, until
from tests.unit.plugins.plugkit import PLAIN, FakeSink, House, collect, info_of, settings, vendors, write_plugin

BOTH = pytest.mark.parametrize("isolation", ["inline", "process"])


def version_read(here: House, name: str = "acme") -> object:
    """The version that a new connection is decoded by."""
    opened, sink = here.connect(name)
    opened.runner.decode([b"x"])
    until(lambda: bool(sink.readings) or sink.failure is not None)
    opened.runner.close()
    values = sink.readings[0].values
    assert isinstance(values, dict)
    assert values["version"] == values["lazy"] == opened.version
    return opened.version


@BOTH
def test_a_plugin_that_is_installed_and_named_is_loaded(here: House, isolation: str) -> None:
    """Entry point, framing, version, hooks: all as the plugin declares them."""
    write_plugin(here.site, "acme", "1.0")
    here.start(acme=settings(isolation))
    opened, sink = here.connect("acme")
    assert (opened.codec_name, opened.version, opened.schema_version) == ("acme", "1.0", 1)
    assert opened.answers
    assert type(opened.framing).__name__ == "Line"
    opened.runner.welcome()
    assert opened.runner.decode([b"one", b"two"])
    opened.runner.encode(Command(7, "d1", {"v": 5}, b"", None))
    until(lambda: len(sink.told) == 2 or sink.failure is not None)
    assert sink.told == [("send", b"hello"), ("encoded", 7, b"d1=5")]
    assert [reading.values for reading in sink.readings] == [
        {"version": "1.0", "frame": frame, "lazy": "1.0"} for frame in ("one", "two")
    ]
    assert "acme_plugin" not in sys.modules


@BOTH
def test_new_connections_use_the_new_version_and_old_ones_finish_on_theirs(here: House, isolation: str) -> None:
    """Until the last of them is gone; then the old version is, too."""
    write_plugin(here.site, "acme", "1.0")
    plugins = here.start(acme=settings(isolation))
    old, old_sink = here.connect("acme")
    write_plugin(here.site, "acme", "2.0")
    info = run(plugins.reload("acme"))
    assert {(one.version, one.current, one.connections) for one in info.versions} == {
        ("1.0", False, 1),
        ("2.0", True, 0),
    }
    assert version_read(here) == "2.0"
    old.runner.decode([b"late"])
    until(lambda: bool(old_sink.readings))
    assert old_sink.readings[0].values == {"version": "1.0", "frame": "late", "lazy": "1.0"}
    old.runner.close()
    assert [(one.version, one.loaded) for one in vendors(plugins)[0].versions] == [("1.0", False), ("2.0", True)]


def test_a_disk_that_takes_its_time_holds_up_nobody_but_the_reload(
    here: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections are served and other plugins changed, one after the other; nothing that came is thrown away."""
    write_plugin(here.site, "acme", "1.0")
    write_plugin(here.site, "other", "1.0")
    plugins = here.start(acme=settings("inline"), other=settings("inline"))
    disk, copy_in, asked = threading.Event(), Shelf.copy_in, []

    def slow(shelf: Shelf, distribution: Distribution) -> str:
        label = copy_in(shelf, distribution)
        asked.append(label)
        assert disk.wait(20)
        return label

    monkeypatch.setattr(Shelf, "copy_in", slow)
    write_plugin(here.site, "acme", "2.0")
    done: list[object] = []
    reload = Deferred.fromCoroutine(plugins.reload("acme")).addBoth(done.append)
    until(lambda: bool(asked))
    assert version_read(here) == "1.0"
    with pytest.raises(PluginError, match="being changed already"):
        run(plugins.disable("acme"))
    # Writes what was decided, and throws away what nobody wants, behind it.
    off = Deferred.fromCoroutine(plugins.disable("other")).addBoth(done.append)
    for _ in range(3):
        turn()
    assert info_of(plugins, "other").state == "disabled" and not done
    disk.set()
    until(lambda: len(done) == 2)
    assert version_read(here) == "2.0"
    assert reload.called and off.called
    assert sorted(one.version for one in info_of(plugins, "acme").versions) == ["1.0", "2.0"]


@BOTH
def test_rollback_goes_back_and_forth(here: House, isolation: str) -> None:
    """The version before was copied, so that pip's replacing it did no harm."""
    write_plugin(here.site, "acme", "1.0")
    plugins = here.start(acme=settings(isolation))
    write_plugin(here.site, "acme", "2.0")
    run(plugins.reload("acme"))
    for expected in ("1.0", "2.0", "1.0"):
        run(plugins.rollback("acme"))
        assert version_read(here) == expected
    plugins.stop()
    here.start(acme=settings(isolation))
    assert version_read(here) == "1.0", "a rollback outlives a restart"


def test_a_reload_after_a_rollback_keeps_the_version_until_another_comes(here: House) -> None:
    """Also when that is one that was there before."""
    write_plugin(here.site, "acme", "1.0")
    plugins = here.start(acme=settings("inline"))
    write_plugin(here.site, "acme", "2.0")
    run(plugins.reload("acme"))
    run(plugins.rollback("acme"))
    run(plugins.reload("acme"))
    assert version_read(here) == "1.0"
    write_plugin(here.site, "acme", "3.0")
    run(plugins.reload("acme"))
    assert version_read(here) == "3.0"
    write_plugin(here.site, "acme", "1.0")
    run(plugins.reload("acme"))
    assert version_read(here) == "1.0"


@BOTH
def test_drain_asks_old_connections_to_close_one_after_another(here: House, isolation: str) -> None:
    """And nobody who is on the new version."""
    write_plugin(here.site, "acme", "1.0")
    plugins = here.start(acme=settings(isolation))
    asked: list[int] = []
    times: list[float] = []

    def close(number: int) -> None:
        asked.append(number)
        times.append(reactor.seconds())
        olds[number].runner.close()

    olds = [here.connect("acme")[0] for _ in range(3)]
    for number, opened in enumerate(olds):
        opened.on_drain = partial(close, number)
    write_plugin(here.site, "acme", "2.0")
    run(plugins.reload("acme", drain=True))
    until(lambda: len(asked) == 3)
    assert min(after - before for before, after in pairwise(times)) > 0.015
    assert sorted(asked) == [0, 1, 2]
    assert vendors(plugins)[0].connections == 0


BAD = {
    "import error": ("import nothing_of_that_name\n" + PLAIN, "nothing_of_that_name"),
    "wrong SDK": (PLAIN.replace("framing = Line()", "framing = Line(); sdk = 99"), "version 99 of the SDK"),
    "misspelt hook": (PLAIN.replace("def encode", "def encoed"), "did you mean `encode`?"),
    "no framing": (PLAIN.replace("framing = Line()", "pass"), "no `framing`"),
    "bad framing": (PLAIN.replace("Line()", "Line(max_frame=0)"), "framing"),
    "wrong arguments": (PLAIN.replace("def decode(self, frame)", "def decode(self, frame, more)"), "`decode` must"),
    "constructor": (
        PLAIN.replace("    def opened", "    def __init__(self, host): 1 / 0\n    def opened"),
        "its constructor raised ZeroDivisionError: division by zero (codec.py:",
    ),
    "exits at import": ("raise SystemExit(3)\n" + PLAIN, "SystemExit"),
    "syntax": ("def (:\n" + PLAIN, "SyntaxError"),
}


@BOTH
@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_is_refused_with_the_reason_and_the_old_version_stays(
    here: House, isolation: str, what: str
) -> None:
    """At the start it is a state; at a reload an error, and nothing changes."""
    source, reason = BAD[what]
    write_plugin(here.site, "bad", "1.0", source)
    write_plugin(here.site, "acme", "1.0")
    plugins = here.start(bad=settings(isolation), acme=settings(isolation))
    infos = {info.name: info for info in plugins.info()}
    assert (infos["bad"].state, infos["acme"].state) == ("refused", "ready")
    assert reason in (infos["bad"].reason or "")
    with pytest.raises(NotAvailable, match="bad"):
        plugins.open("bad", "p:1", FakeSink())
    write_plugin(here.site, "acme", "2.0", source)
    with pytest.raises(PluginError, match=r"version 1\.0-.* stays") as refused:
        run(plugins.reload("acme"))
    assert reason in str(refused.value)
    assert version_read(here) == "1.0"
    assert any(one.kind is AlarmKind.CODEC and "bad" in one.text for one in plugins.alarms)


@BOTH
def test_configuration_is_read_strictly(here: House, isolation: str) -> None:
    """A key that the codec has not is a reason to refuse it."""
    source = (
        "from dataclasses import dataclass\n"
        + PLAIN.replace(
            "class Plain", "@dataclass(frozen=True)\nclass Own:\n    word: str = 'w'\n\nclass Plain"
        ).replace("framing = Line()", "framing = Line(); Config = Own")
    ).replace('return b"hello"', "return self.host.config.word.encode()")
    write_plugin(here.site, "one", "1.0", source)
    write_plugin(here.site, "two", "1.0", source)
    plugins = here.start(one=settings(isolation, {"word": "hi"}), two=settings(isolation, {"words": "hi"}))
    assert "did you mean word" in (info_of(plugins, "two").reason or "")
    opened, sink = here.connect("one")
    opened.runner.welcome()
    until(lambda: bool(sink.told))
    assert sink.told == [("send", b"hi")]


def test_enabling_and_disabling_is_remembered(here: House) -> None:
    """What was decided at run time wins over the configuration until it is decided otherwise."""
    write_plugin(here.site, "acme", "1.0")
    plugins = here.start()
    with pytest.raises(NotAvailable, match="disabled"):
        plugins.open("acme", "p:1", FakeSink())
    assert run(plugins.enable("acme", "inline")).state == "ready"
    plugins.stop()
    plugins = here.start()
    assert version_read(here) == "1.0"
    opened, _ = here.connect("acme")
    drained: list[bool] = []
    opened.on_drain = lambda: drained.append(True)
    run(plugins.disable("acme"))
    assert drained == [True]
    plugins.stop()
    plugins = here.start(acme=settings("inline"))
    assert vendors(plugins)[0].state == "disabled"
    assert json.loads((here.folder / "state.json").read_text())["plugins"]["acme"]["enabled"] is False


TYPED = PLAIN.replace("    version =", '    schema = Schema(tags={{"count": Tag("{type}")}})\n    version =')


def install_kept(here: House, name: str, version: str, source: str) -> None:
    """As ``ctl plugins install`` leaves it: on the shelf, and pip has nothing of it."""
    write_plugin(here.site, name, version, source)
    plugins = here.plugins
    (distribution,) = distributions([str(here.site)])
    label = plugins._shelf.copy_in(distribution)
    shutil.rmtree(here.site)
    here.site.mkdir()
    run(plugins._scan())
    plugins._shelf.arrive(name, label)


@BOTH
def test_enabling_takes_what_came_last_whatever_its_schema_is(here: House, isolation: str) -> None:
    """As a reload that refuses it says; a restart and a rollback agree."""
    here.start(acme=settings(isolation))
    install_kept(here, "acme", "1.0", TYPED.replace("{type}", "int"))
    plugins = here.plugins
    run(plugins.enable("acme"))
    install_kept(here, "acme", "2.0", TYPED.replace("{type}", "float"))
    with pytest.raises(PluginError, match="`disable` and `enable` take it all the same"):
        run(plugins.reload("acme"))
    assert version_read(here) == "1.0"
    run(plugins.disable("acme"))
    run(plugins.enable("acme"))
    assert version_read(here) == "2.0"
    plugins.stop()
    plugins = here.start(acme=settings(isolation))
    assert version_read(here) == "2.0"
    run(plugins.rollback("acme"))
    run(plugins.disable("acme"))
    run(plugins.enable("acme"))
    assert version_read(here) == "1.0", "it was gone back to"


def test_a_version_that_is_enabled_and_does_not_fit_can_be_gone_back_from(here: House) -> None:
    """A restart tries it again: it was decided."""
    here.start(acme=settings("inline"))
    install_kept(here, "acme", "1.0", PLAIN)
    plugins = here.plugins
    run(plugins.enable("acme"))
    install_kept(here, "acme", "2.0", BAD["misspelt hook"][0])
    run(plugins.disable("acme"))
    with pytest.raises(PluginError, match="did you mean"):
        run(plugins.enable("acme"))
    plugins.stop()
    plugins = here.start(acme=settings("inline"))
    assert info_of(plugins, "acme").state == "refused"
    run(plugins.rollback("acme"))
    assert version_read(here) == "1.0"


def test_a_state_file_that_cannot_be_read_stops_nothing(here: House) -> None:
    """It is put aside and told."""
    write_plugin(here.site, "acme", "1.0")
    here.folder.mkdir(parents=True)
    (here.folder / "state.json").write_text('{"format": 1, "plugins": 5}')
    plugins = here.start(acme=settings("inline"))
    assert version_read(here) == "1.0"
    assert "put aside" in plugins.alarms[0].text
    assert (here.folder / "state.bad").exists()


def test_a_plugin_that_is_loading_is_no_alarm(here: House) -> None:
    """Not at a start, and not when it is enabled; whatever was wrong with it before."""
    write_plugin(here.site, "acme", "1.0")
    here.plugins = plugins = Plugins(reactor, here.folder, {"acme": settings("process")}, bundled={}, version="1")
    starting = plugins.start()
    assert not starting.called
    assert (info_of(plugins, "acme").state, plugins.alarms) == ("starting", ())
    run(starting)
    run(plugins.disable("acme"))
    enabling = Deferred.fromCoroutine(plugins.enable("acme"))
    assert not enabling.called
    assert (info_of(plugins, "acme").state, plugins.alarms) == ("starting", ())
    assert run(enabling).state == "ready"


def test_a_name_that_nobody_brings_is_told(here: House) -> None:
    """With what to do about it."""
    plugins = here.start(ghost=settings("process"))
    info = info_of(plugins, "ghost")
    assert info.state == "refused" and "ctl plugins install" in (info.reason or "")
    with pytest.raises(NotAvailable, match="no codec 'other'"):
        plugins.open("other", "p:1", FakeSink())
    with pytest.raises(PluginError, match="no plugin 'other'"):
        run(plugins.reload("other"))


def test_modules_of_an_old_version_leave_memory_over_200_reloads(here: House) -> None:
    """With connections that finish on their version, and frames going on all the while: none lost, none twice."""
    write_plugin(here.site, "acme", "1.0")
    plugins = here.start(acme=settings("inline"))
    write_plugin(here.site, "acme", "2.0")
    run(plugins.reload("acme"))
    codecs: list[weakref.ref[object]] = []
    previous = here.connect("acme")
    sent = 0
    sinks = [previous[1]]
    for number in range(200):
        run(plugins.rollback("acme"))
        opened, sink = here.connect("acme")
        for runner in (previous[0].runner, opened.runner):
            runner.decode([b"%d" % sent])
            sent += 1
        codec = plugins._plugins["acme"].current._loaded.codec  # type: ignore[union-attr]
        codecs.append(weakref.ref(codec))
        codecs.append(weakref.ref(sys.modules.get(codec.__module__) or codec.decode))
        del codec
        previous[0].runner.close()
        previous = (opened, sink)
        sinks.append(sink)
        assert opened.version == ("1.0", "2.0")[number % 2]
    frames = sorted(int(dict(one.values)["frame"]) for sink in sinks for one in sink.readings)  # type: ignore[arg-type]
    assert frames == list(range(sent))
    collect()
    assert sum(one() is not None for one in codecs) <= 2, "only the current version is in memory"
    assert not [name for name in sys.modules if name.startswith("acme_plugin")]


TALKS = PLAIN.replace(
    "    def encode(self",
    """    def decode_many(self, frames):
        if frames == [b"bug"]:
            raise ValueError("a bug")
        for number in range(100):
            print("%s and", number, flush=True)
        return []

    def encode(self""",
)


def test_what_a_plugin_prints_hides_none_of_its_faults(here: House, caplog: pytest.LogCaptureFixture) -> None:
    """Of what it says itself some lines are let through, under a name of their own; what is said of it has its own."""
    write_plugin(here.site, "acme", "1.0", TALKS)
    here.start(acme=settings("process"))
    caplog.set_level("INFO")
    opened, sink = here.connect("acme")
    opened.runner.decode([b"talk"])
    until(lambda: "and 19" in caplog.text)
    opened.runner.decode([b"bug"])
    until(lambda: sink.failure is not None)
    said = [one for one in caplog.records if one.name == "iot_mqtt.plugin.acme.output"]
    assert [one.getMessage() for one in said] == [f"%s and {number}" for number in range(20)]
    assert {one.msg for one in said} == {"%s"}, "each line would be a kind of its own"
    faults = [one.getMessage() for one in caplog.records if one.name == "iot_mqtt.plugin.acme"]
    assert len(faults) == 1 and "exception of codec" in faults[0]
