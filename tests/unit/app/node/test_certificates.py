"""A node's certificates: new files, alarms before they are over, and what metrics say."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import trustme
from prometheus_client import CollectorRegistry, generate_latest

from iot_mqtt.app.node.certificates import LOOK_SECONDS, Certificates
from iot_mqtt.metrics.certificates import CertificatesCollector
from iot_mqtt.pipeline import ManualClock, TlsContext, TlsSettings
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from tests.unit.pipeline.test_revocation_lists import write as write_list
from tests.unit.pipeline.tls_kit import Files

AUTHORITY = trustme.CA()


def write(path: Path, days: float) -> str:
    """A certificate with its key that ends so many days after 1970."""
    end = datetime.datetime.fromtimestamp(days * 86_400, datetime.UTC)
    made = AUTHORITY.issue_cert("a.example", not_before=end - datetime.timedelta(days=90), not_after=end)
    made.private_key_and_cert_chain_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Good for 1000 days."""
    return write(tmp_path / "server.pem", 1000)


def made(path: str, day: float) -> tuple[Certificates, ManualClock]:
    """The certificates of one port, on a day."""
    clock = ManualClock(wall=day * 86_400)
    certificates = Certificates(clock)
    certificates.add("mqtt", None)
    certificates.add("mqtts", TlsContext(TlsSettings(path, path)))
    return certificates, clock


def test_files_are_looked_at_regularly_once_there_are_any(path: str) -> None:
    """Also of a port that is opened later; without TLS nothing wakes the node for them."""
    certificates, context = Certificates(ManualClock()), TlsContext(TlsSettings(path, path))
    looks: list[float] = []
    certificates.begin(looks.append)
    certificates.add("mqtt", None)
    assert looks == []
    for name in ("mqtts", "wss"):
        certificates.add(name, context)
    assert looks == [LOOK_SECONDS]


@pytest.mark.parametrize(
    ("day", "words"),
    [(985.9, None), (986.1, "is over in 14 days"), (999.6, "is over in 0 days"), (1003, "is over for 3 days")],
)
def test_an_end_is_missed_beforehand(
    path: str, day: float, words: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Two weeks: an alarm, and a line of the log once a day."""
    certificates, clock = made(path, day)
    for _ in range(3):
        certificates.look(changed_only=True)()
        clock.advance(1)
    lines = [record.getMessage() for record in caplog.records]
    expected = [] if words is None else [f"listener mqtts: the certificate {path} {words}"]
    assert lines == expected == [one.text for one in certificates.alarms]
    clock.advance(86_400)
    certificates.look(changed_only=True)()
    assert len(caplog.records) == 2 * len(lines) or words is None


def test_new_files_come_by_themselves_and_wrong_ones_are_an_alarm(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """The old certificate stays, and metrics say so."""
    certificates, _ = made(path, 990)

    def shown() -> str:
        registry = CollectorRegistry()
        registry.register(CertificatesCollector(certificates.facts))
        return generate_latest(registry).decode()

    assert f'iot_mqtt_tls_certificate_days{{file="{path}",listener="mqtts"}} 10.0' in shown()
    write(Path(path), 1020)
    for _ in range(2):
        certificates.look(changed_only=True)()
    assert f'iot_mqtt_tls_certificate_days{{file="{path}",listener="mqtts"}} 30.0' in shown()
    assert not certificates.alarms
    Path(path).write_text("nothing")
    for _ in range(5):
        certificates.look(changed_only=True)()
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    assert "the old one stays" in caplog.text
    assert 'iot_mqtt_tls_outdated{listener="mqtts"} 1.0' in shown()
    assert f'iot_mqtt_tls_certificate_days{{file="{path}",listener="mqtts"}} 30.0' in shown()
    text = "listener mqtts goes on with its certificates of before: the files of now cannot be used"
    assert certificates.alarms == (Alarm(AlarmKind.CERTIFICATE, text),)
    write(Path(path), 1040)
    certificates.look(changed_only=False)()
    assert not certificates.alarms
    assert 'iot_mqtt_tls_outdated{listener="mqtts"} 0.0' in shown()


def looked_at(certificates: Certificates) -> None:
    """Often enough for new files to be seen."""
    for _ in range(2):
        certificates.look(changed_only=True)()


def test_a_certificate_of_later_waits_until_it_is_valid(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """No client would believe it before: the one that is valid serves them, and an alarm says until when."""
    certificates, clock = made(path, 950)
    write(Path(path), 1042)
    looked_at(certificates)
    words = "is not valid before 1972-08-10 00:00:00 UTC: the one of before serves until then"
    text = f"listener mqtts: the new certificate {path} {words}"
    assert certificates.alarms == (Alarm(AlarmKind.CERTIFICATE, text),)
    assert caplog.messages == [text], "once"
    (facts,) = certificates.facts()
    assert (facts.outdated, facts.days_left) == (True, {path: 50})
    clock.advance(2 * 86_400)
    looked_at(certificates)
    (facts,) = certificates.facts()
    assert (facts.outdated, facts.days_left) == (False, {path: 90})
    assert not certificates.alarms


def test_a_certificate_of_later_waits_for_no_other_that_is_over(path: str) -> None:
    """Nobody is served by either; nor does it wait at a start."""
    text = f"listener mqtts: the certificate {path} is not valid before 1972-08-10 00:00:00 UTC: no client accepts it"
    certificates, _ = made(path, 1001)
    write(Path(path), 1042 + 60)
    looked_at(certificates)
    assert certificates.alarms == (Alarm(AlarmKind.CERTIFICATE, text.replace("08-10", "10-09")),)
    write(Path(path), 1042)
    certificates, _ = made(path, 950)
    assert certificates.alarms == (Alarm(AlarmKind.CERTIFICATE, text),)


def test_files_that_are_wrong_end_the_wait_for_those_of_later(path: str) -> None:
    """They are not what anybody wants any more, and nor is the old one of before them if it comes back."""
    certificates, clock = made(path, 950)
    for text in ("nothing", Path(path).read_text()):
        write(Path(path), 1042)
        looked_at(certificates)
        Path(path).write_text(text)
        looked_at(certificates)
        assert all("is not valid before" not in one.text for one in certificates.alarms)
    clock.advance(2 * 86_400)
    looked_at(certificates)
    assert certificates.facts()[0].days_left == {path: 48}
    assert not certificates.alarms


def test_a_new_list_of_revoked_certificates_waits_for_nothing(tmp_path: Path) -> None:
    """Who was revoked is kept out, whatever else is new."""
    certificates, _, files, _ = with_list(tmp_path, 101)
    serve(files, days=(103, 200))
    looked_at(certificates)
    assert certificates.facts()[0].outdated
    write_list(files, "crl", begins=100, ends=116)
    looked_at(certificates)
    assert not certificates.facts()[0].outdated
    assert "no client accepts it" in certificates.alarms[0].text


def serve(files: Files, *, days: tuple[float, float]) -> None:
    """Put a certificate of these days in place, which count from 1970."""
    begin, end = (datetime.datetime.fromtimestamp(day * 86_400, datetime.UTC) for day in days)
    files.save("server", files.authority.issue_cert("localhost", not_before=begin, not_after=end))


def with_list(tmp_path: Path, day: float) -> tuple[Certificates, ManualClock, Files, str]:
    """A port with a list that is good from the hundredth to the hundred and eighth day."""
    files, clock = Files(tmp_path), ManualClock(wall=day * 86_400)
    serve(files, days=(50, 1000))
    path = write_list(files, "crl")
    certificates = Certificates(clock)
    settings = TlsSettings(files.certificate, files.key, client_ca=files.client_ca, crl=(path,))
    certificates.add("mqtts", TlsContext(settings))
    return certificates, clock, files, path


def test_a_list_that_ends_is_missed_in_its_last_quarter(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once a day, at once when it is over, and until there is a new one."""
    certificates, clock, files, path = with_list(tmp_path, 105.5)
    certificates.look(changed_only=True)()
    assert not certificates.alarms and not caplog.records
    for day, words in ((106.5, "is over at"), (107, "is over at"), (107.6, "is over at"), (108.1, "is over since")):
        clock.advance(day * 86_400 - clock.wall())
        for _ in range(3):
            certificates.look(changed_only=True)()
        (alarm,) = certificates.alarms
        assert alarm.kind is AlarmKind.REVOCATION_LIST
        assert alarm.text.startswith(f"listener mqtts: the list of revoked certificates {path} {words} 1970-04-19")
    assert [record.getMessage().count("is over since") for record in caplog.records] == [0, 0, 1]
    write_list(files, "crl", begins=108, ends=116)
    for _ in range(2):
        certificates.look(changed_only=True)()
    assert not certificates.alarms


def test_a_list_that_is_over_is_said_at_the_start_and_at_each_reload(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And how long it has been so is a figure."""
    certificates, _, _, path = with_list(tmp_path, 109)
    for _ in range(2):
        certificates.look(changed_only=True)()
        certificates.look(changed_only=False)()
    assert len(caplog.records) == 3 and "no client of" in caplog.text
    registry = CollectorRegistry()
    registry.register(CertificatesCollector(certificates.facts))
    figures = generate_latest(registry).decode()
    (line,) = [one for one in figures.splitlines() if one.startswith("iot_mqtt_tls_crl_left_seconds{")]
    assert (
        f'file="{path}"' in line and 'listener="mqtts"' in line and "Testing CA" in line and line.endswith(" -86400.0")
    )
