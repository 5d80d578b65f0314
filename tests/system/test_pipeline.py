"""The embedded default from end to end: a broker as it comes, a frame or a publish, rows in Parquet, a page of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from systemkit import wire
from systemkit.dashboard import CHROMIUM, browse, buildable, person
from systemkit.forking import clean_environment
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess, our_command
from systemkit.starting import StartBroker, brokers
from systemkit.waiting import wait_until

from tests.enginekit.jvm import QUICK

pytestmark = [
    pytest.mark.skipif(MOSQUITTO, reason="mosquitto has no pipeline"),
    # Spark starts in ten seconds on a machine that has nothing else to do.
    pytest.mark.timeout(600),
]

duckdb = pytest.importorskip("duckdb")

SPARK_SECONDS = 240.0
SMALL = ("--set", "pipeline.memory=512m", "--set", "pipeline.trigger_seconds=1")


def pipeline(broker: BrokerProcess, *arguments: str, seconds: float = SPARK_SECONDS) -> str:
    """A command that must succeed, on the data directory of a broker."""
    command = [*our_command(), "pipeline", *arguments, "--set", f"node.data_dir={broker.data_dir}"]
    if arguments[0] == "run":
        command += SMALL
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        cwd=broker.folder,
        env=clean_environment() | QUICK,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done.stdout


def rows(broker: BrokerProcess, columns: str, table: str = "clean", where: str = "true") -> list[tuple[Any, ...]]:
    """As somebody reads them who knows nothing but Parquet."""
    files = sorted((broker.data_dir / "pipeline" / "tables" / table).glob("dt=*/batch=*/*.parquet"))
    found: list[tuple[Any, ...]] = duckdb.sql(
        f"SELECT {columns} FROM read_parquet({list(map(str, files))}) WHERE {where} ORDER BY ALL"
    ).fetchall()
    return found


def files(broker: BrokerProcess) -> list[Path]:
    return sorted((broker.data_dir / "uplink" / "iot.readings").glob("dt=*/*.jsonl"))


def publish(broker: BrokerProcess, client_id: str, *payloads: bytes) -> None:
    """At QoS 1, each acknowledged."""
    with Plain(broker.ports["mqtt"], version=5) as client:
        client.connect(client_id)
        for payload in payloads:
            client.publish(f"up/{client_id}/values", payload, qos=1, packet_id=1)
            assert client.expect(wire.PUBACK).reason() == 0


#: A value that would be a script where values are not text.
EVIL = '</script><img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, str]]:
    """A broker after the job ``clean`` has read what was published, and what the job said."""
    with brokers(tmp_path_factory.mktemp("cleaned")) as start:
        broker = start(settings={"uplink.file.rotate_seconds": 0.2})
        _publish_all(broker)
        wait_until(lambda: sum(len(path.read_bytes().splitlines()) for path in files(broker)) == 70, 20)
        yield broker, pipeline(broker, "run", "clean", "--once")


def _publish_all(broker: BrokerProcess) -> None:
    publish(
        broker,
        "press-7",
        *(json.dumps({"seq": number, "t": 20 + number, "door": EVIL}).encode() for number in range(50)),
        # What it had said last, once more.
        json.dumps({"seq": 49, "t": 69, "door": EVIL}).encode(),
        b"\xff not JSON" + EVIL.encode(),
    )
    # It begins to count again; its times and numbers are texts; one of its messages is nothing but nulls.
    publish(
        broker,
        "press-9",
        *(b'{"seq": %d, "t": %d}' % (seq, 30 + 10 * life + seq) for life in range(3) for seq in range(1, 6)),
        b'{"seq": "6", "t": 99, "ts": "2026-09-21T16:13:20+02:00"}',
        b'{"seq": 7, "t": 1, "ts": "2026-09-21T16:13:20"}',
        json.dumps({f"channel_{number}": None for number in range(3000)}).encode(),
    )


def test_out_of_the_box_what_is_published_becomes_rows_and_a_page(cleaned: tuple[BrokerProcess, str]) -> None:
    """No key of the uplink or the pipeline is set but the time to a file; nothing is installed but Java."""
    broker, said = cleaned
    assert "clean: read 70, written 116, invalid 3, duplicate 1, late " in said
    assert rows(broker, "seq, value, epoch_ms(ts)", where="device LIKE '%press-9%' AND value = 99") == [
        (6, 99.0, 1_790_000_000_000)
    ]
    assert rows(broker, "value", where="device LIKE '%press-9%' AND value < 99") == [
        (float(30 + 10 * life + seq),) for life in range(3) for seq in range(1, 6)
    ]
    letters = rows(broker, "reason, tags, len(raw)", "invalid")
    assert [row[:2] for row in letters] == [
        ("payload is not JSON", None),
        ("ts has no time zone", None),
        ("value is null", 3000),
    ]
    assert sum(row[2] for row in letters) < 100_000
    (device,) = {row[0] for row in rows(broker, "device", where="device LIKE '%press-7%'")}
    assert rows(broker, "device, seq, value", where="device LIKE '%press-7%'") == [
        (device, number, value) for number in range(50) for value in (float(20 + number), None)
    ]
    status = json.loads(pipeline(broker, "status", "--json"))[0]
    assert (status["job"], status["state"], status["error"]) == ("clean", "stopped", None)
    token = (broker.data_dir / "admin.token").read_text().strip()
    told = json.loads(broker.http("/api/v1/pipeline", token=token))["items"]
    assert told[0]["totals"] == status["totals"] and told[0]["named"] == status["named"]
    assert list(status["named"]["duplicate"].values()) == [1] and "press-7" in str(status["named"]["duplicate"])

    pipeline(broker, "report", "--out", "page.html")
    page = (broker.folder / "page.html").read_text()
    assert "press-7" in page
    assert EVIL not in page
    assert "not JSON" in page

    # Again, with nothing new, is nothing new.
    pipeline(broker, "run", "clean", "--once")
    assert len(rows(broker, "seq")) == 116


@pytest.mark.skipif(CHROMIUM is None or not buildable(), reason="no Chromium, or scripts/setup.sh web has not run")
def test_the_dashboard_shows_what_became_of_rows(cleaned: tuple[BrokerProcess, str]) -> None:
    """The job, its dead letters by reason, its duplicates by device; single dead letters, and alarms."""
    broker, _ = cleaned
    reasons = {"payload is not JSON": 1, "ts has no time zone": 1, "value is null": 1}
    _leave_alarms(broker)
    told = {"reasons": reasons, "device": "press-7", "operator": person(broker, "ada"), "evil": EVIL, "alarms": 2}
    browse("pipeline", {**person(broker, "eve", "viewer"), **told})


def _leave_alarms(broker: BrokerProcess) -> None:
    """As the job ``alarm`` leaves them: one that goes on, of a device whose name is markup, and one that is over."""
    folder = broker.data_dir / "pipeline" / "tables" / "alarms" / "dt=2026-11-21" / "batch=alarm-aaaaaaaa-000000000001"
    folder.mkdir(parents=True)
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t (alarm_id VARCHAR, state VARCHAR, rule VARCHAR, kind VARCHAR, severity VARCHAR,"
            ' gateway VARCHAR, device VARCHAR, tag VARCHAR, value DOUBLE, threshold DOUBLE, "at" TIMESTAMPTZ)'
        )
        for alarm, state, device, second in (
            ("a", "raised", EVIL, 50),
            ("b", "raised", "press-1", 0),
            ("b", "cleared", "press-1", 30),
        ):
            row = [alarm, state, "too hot", "threshold", "critical", "hall", device, "t", 91.0, 90.0]
            at = f"2026-11-21T12:00:{second:02d}Z"
            connection.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", [*row, at])
        connection.execute(f"COPY t TO '{folder}/part-0.parquet' (FORMAT parquet)")


@pytest.fixture
def running(start_broker: StartBroker) -> Iterator[tuple[BrokerProcess, subprocess.Popen[bytes]]]:
    """A broker and a job that goes on."""
    broker = start_broker(settings={"uplink.file.rotate_seconds": 0.2})
    command = [*our_command(), "pipeline", "run", "clean", "--set", f"node.data_dir={broker.data_dir}", *SMALL]
    with (broker.folder / "job.log").open("wb") as log:
        job = subprocess.Popen(command, stdout=log, stderr=log, cwd=broker.folder, env=clean_environment() | QUICK)
    try:
        wait_until(lambda: job.poll() is not None or bool(jobs_said(broker)), SPARK_SECONDS)
        assert job.poll() is None, (broker.folder / "job.log").read_text()
        yield broker, job
    finally:
        if job.poll() is None:
            job.kill()
        job.wait()


def jobs_said(broker: BrokerProcess) -> dict[str, Any]:
    path = broker.data_dir / "pipeline" / "status" / "clean.json"
    found: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
    return found


def children(pid: int) -> list[int]:
    """What a process has started."""
    return [int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()]


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_sigterm_ends_a_job_in_peace(running: tuple[BrokerProcess, subprocess.Popen[bytes]]) -> None:
    """With what came until then, and exit code 0; the JVM goes, too."""
    broker, job = running
    publish(broker, "press-8", b'{"seq": 1, "t": 1}')
    wait_until(lambda: (jobs_said(broker).get("totals") or {}).get("in", 0) >= 1, SPARK_SECONDS)
    (java,) = children(job.pid)
    job.send_signal(signal.SIGTERM)
    assert job.wait(120) == 0, (broker.folder / "job.log").read_text()
    wait_until(lambda: is_gone(java), 30)
    assert jobs_said(broker)["running"] is False
    assert rows(broker, "device, seq, value") == [("press-8", 1, 1.0)]


def test_kill_9_leaves_no_jvm_behind(running: tuple[BrokerProcess, subprocess.Popen[bytes]]) -> None:
    """It hears that its driver is gone; and the status tells the truth, although the file says otherwise."""
    broker, job = running
    (java,) = children(job.pid)
    assert "java" in os.readlink(f"/proc/{java}/exe")
    job.kill()
    job.wait()
    wait_until(lambda: is_gone(java), 60)
    assert jobs_said(broker)["running"] is True
    wait_until(lambda: json.loads(pipeline(broker, "status", "--json"))[0]["state"] == "died", 30)
    assert "not running since" in pipeline(broker, "status")
