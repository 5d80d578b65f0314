"""The page: one HTML file with everything in it, which loads nothing and runs no script but its own.

Names of gateways, devices and tags come from whoever is connected. They are escaped where they stand in HTML, and in
the JSON for the charts no ``<`` is left that could end it. The policy in the head allows exactly one script and one
style sheet, by their digests: what got in all the same would not run.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from iot_mqtt.app.pipeline.report import limits
from iot_mqtt.app.pipeline.report.series import Bucket, drawn, gaps_of
from iot_mqtt.app.pipeline.report.tables import Alarm, Found, Series
from iot_mqtt.app.terminal import span

Json = dict[str, Any]

_HERE = Path(__file__).parent
_SEVERITIES = ("critical", "warning", "info")
#: What is open for this long looks as if it were over.
_SILENT = 600_000


def page(found: Found | None, now: int, source: str) -> str:
    """The text of the file. ``now`` in ms; ``source`` says where the tables are."""
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    body = _empty() if found is None else _body(found, now)
    data = "{}" if found is None else _json(_data(found))
    policy = f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; base-uri 'none'"
    return "".join(
        [
            "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n",
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
            '<meta name=viewport content="width=device-width, initial-scale=1">\n',
            "<title>Readings and alarms</title>\n",
            f"<style>{style}</style>\n</head>\n<body>\n",
            *body,
            f"<footer>Made {_time(now)} UTC by <code>iot-mqtt pipeline report</code> from {_text(source)}.",
            " All times are UTC.</footer>\n",
            f'<script type="application/json" id="data">{data}</script>\n',
            f"<script>{script}</script>\n" if found is not None else "",
            "</body>\n</html>\n",
        ]
    )


def _empty() -> Iterator[str]:
    yield "<h1>Readings and alarms</h1>\n<p>There are no readings in the tables yet. "
    yield "<code>iot-mqtt pipeline run clean --once</code> makes rows of what has gone up.</p>\n"


def _body(found: Found, now: int) -> Iterator[str]:
    yield "<h1>Readings and alarms</h1>\n"
    yield f"<p class=soft>{_time(found.begin)} to {_time(found.end)} UTC"
    if now - found.end > _SILENT:
        yield f". The newest reading is <b>{span((now - found.end) / 1000)}</b> old"
    yield ".</p>\n"
    yield from _tiles(found)
    yield from _alarms(found, now)
    yield from _devices(found, now)
    yield from _letters(found)
    yield from _duplicates(found)


def _tiles(found: Found) -> Iterator[str]:
    open_alarms = sum(alarm.until is None for alarm in found.alarms)
    alarms = len(found.alarms) + found.more_alarms
    devices = len({(one.gateway, one.device) for one in found.series}) + found.more_devices
    usual, longest = found.delays
    tiles = [
        (_count(sum(one.rows for one in found.series)), "readings", False),
        (_count(devices), "devices", False),
        (_count(len(found.series)), "tags", False),
        (f"{open_alarms} of {alarms}", "alarms go on", open_alarms > 0),
        (_count(found.invalid), "dead letters", found.invalid > 0),
        (_delay(usual), f"usual delay; 99 % in {_delay(longest)}", False),
    ]
    yield "<div class=tiles>"
    for value, name, alert in tiles:
        yield f'<div class="tile{" alert" if alert else ""}"><b>{value}</b><span>{name}</span></div>'
    yield "</div>\n"


def _alarms(found: Found, now: int) -> Iterator[str]:
    yield "<h2>Alarms</h2>\n"
    if not found.alarms:
        yield "<p class=soft>None.</p>\n"
        return
    yield "<div class='card wide'><table><tr><th>Severity<th>Rule<th>Where<th>Raised<th>Lasted<th>Why</tr>\n"
    for alarm in found.alarms:
        lasted = span(((alarm.until or now) - alarm.since) / 1000)
        state = lasted if alarm.until is not None else f"<b>goes on</b>, {lasted}"
        severity = _severity(alarm)
        yield (
            f'<tr><td class="severity {severity}">{severity}<td>{_text(alarm.rule)}'
            f"<td>{_where(alarm.gateway, alarm.device, alarm.tag)}<td class=time>{_time(alarm.since)}"
            f"<td>{state}<td>{_why(alarm)}</tr>\n"
        )
    yield "</table></div>\n"
    if found.more_alarms:
        yield f"<p class=note>{_count(found.more_alarms)} older ones are not shown.</p>\n"


def _devices(found: Found, now: int) -> Iterator[str]:
    yield "<h2>Devices</h2>\n"
    yield '<input class=search id=search type=search placeholder="Find a gateway or device" hidden'
    yield ' aria-label="Find a gateway or device">\n'
    yield "<noscript><p class=note>The charts need JavaScript.</p></noscript>\n"
    places = {id(one): place for place, one in enumerate(found.series)}
    for (gateway, device), group in groupby(found.series, lambda one: (one.gateway, one.device)):
        yield from _device(found, gateway, device, list(group), places, now)
    if found.more_devices:
        yield f"<p class=note>{_count(found.more_devices)} more devices: <code>--device NAME</code> shows one.</p>\n"
    if found.more_series:
        yield f"<p class=note>{_count(found.more_series)} tags have no chart: there are {limits.CHARTS} at most.</p>\n"


def _device(
    found: Found, gateway: str, device: str, tags: Sequence[Series], places: Mapping[int, int], now: int
) -> Iterator[str]:
    heard = max(one.heard_at for one in tags)
    delays = [one.delay for one in tags if one.delay is not None]
    facts = [
        ("last seen", f"{_time(heard)}, {span((now - heard) / 1000)} ago"),
        ("readings", _count(sum(one.rows for one in tags))),
        (
            "delay",
            f"{_delay(max(delays, default=None))}, at most {_delay(max(one.longest_delay or 0 for one in tags))}",
        ),
    ]
    if not_good := sum(one.not_good for one in tags):
        facts.append(("not good", _count(not_good)))
    name = f"{gateway} {device}"
    yield f'<section class=card data-name="{_text(name)}"><div class=head><h3>{_where(gateway, device)}</h3><dl>'
    yield from (f"<div><dt>{label}<dd>{value}</div>" for label, value in facts)
    yield "</dl></div>\n<div class=charts>\n"
    for one in tags:
        if places[id(one)] in found.buckets:
            yield _figure(places[id(one)], one)
    yield "</div>\n"
    texts = [one for one in tags if places[id(one)] not in found.buckets]
    if texts:
        yield "<div class=wide><table><tr><th>Tag<th>Last value<th class=number>Readings<th>Last seen</tr>\n"
        for one in texts:
            value = one.last_text if one.last_text is not None else _number(one.last)
            yield (
                f"<tr><td>{_text(one.tag)}<td>{_text(value)}<td class=number>{_count(one.rows)}"
                f"<td class=time>{_time(one.heard_at)}</tr>\n"
            )
        yield "</table></div>\n"
    yield "</section>\n"


def _figure(place: int, one: Series) -> str:
    unit = f" {_text(one.unit)}" if one.unit else ""
    return (
        f'<figure data-series="{place}"><figcaption><b>{_text(one.tag)}</b>'
        f"<span>{_number(one.last)}{unit}</span>"
        f"<span class=over>{_number(one.low)} … {_number(one.high)}, mean {_number(one.mean)}</span><output></output>"
        "</figcaption></figure>\n"
    )


def _letters(found: Found) -> Iterator[str]:
    yield "<h2>Dead letters</h2>\n"
    if not found.reasons:
        yield "<p class=soft>None in these days.</p>\n"
        return
    yield "<div class='card wide'><table><tr><th>Reason<th class=number>Records<th>Newest<th>Such as</tr>\n"
    for one in found.reasons:
        yield (
            f"<tr><td>{_text(one.reason)}<td class=number>{_count(one.records)}<td class=time>{_time(one.at)}"
            f"<td><code>{_text(one.sample)}</code></tr>\n"
        )
    yield "</table></div>\n"
    if (rest := found.invalid - sum(one.records for one in found.reasons)) > 0:
        yield f"<p class=note>{_count(rest)} records have other reasons.</p>\n"


def _duplicates(found: Found) -> Iterator[str]:
    yield "<h2>Duplicates</h2>\n"
    if not found.duplicates:
        yield "<p class=soft>None: nothing came twice.</p>\n"
        return
    yield "<div class='card wide'><table><tr><th>Device<th class=number>Messages passed over</tr>\n"
    for name, count in found.duplicates:
        yield f"<tr><td>{_text(name)}<td class=number>{_count(count)}</tr>\n"
    yield "</table></div>\n<p class=note>Since the tables began. A device that has many, or one that never repeats"
    yield " anything, counts its messages anew: see docs/pipeline.md.</p>\n"


# What the script draws.


def _data(found: Found) -> Json:
    by_tag: dict[tuple[str, str, str], list[int]] = {}
    for number, alarm in enumerate(found.alarms):
        by_tag.setdefault((alarm.gateway, alarm.device, alarm.tag), []).append(number)
    series = {}
    for place, buckets in found.buckets.items():
        one = found.series[place]
        names = (one.gateway, one.device)
        numbers = by_tag.get((*names, one.tag), []) + by_tag.get((*names, ""), [])
        series[place] = _chart(found, buckets, numbers)
    alarms = [
        {
            "since": alarm.since - found.begin,
            "until": None if alarm.until is None else alarm.until - found.begin,
            "rule": alarm.rule[: limits.NAME],
            "severity": _severity(alarm),
        }
        for alarm in found.alarms
    ]
    return {"begin": found.begin, "end": found.end, "series": series, "alarms": alarms}


def _chart(found: Found, buckets: Sequence[Bucket], alarms: Sequence[int]) -> Json:
    gaps = gaps_of(buckets, found.width, found.end)
    return {
        "runs": [[_point(one, found.begin) for one in run] for run in drawn(buckets, gaps)],
        "gaps": [[gap.begin - found.begin, gap.end - found.begin] for gap in gaps],
        "alarms": alarms,
        # What is only ever 0 or 1 is a switch.
        "steps": all({one.low, one.high} <= {0.0, 1.0} for one in buckets),
    }


def _point(one: Bucket, begin: int) -> list[float]:
    return [one.begin - begin, one.end - begin, *map(_short, (one.low, one.high, one.first, one.last))]


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _json(value: object) -> str:
    """JSON that may stand in a script element."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# Words and figures.


def _text(value: str | None) -> str:
    """Escaped, cut, and without characters that turn or hide what stands beside them."""
    told = (value or "")[: limits.NAME + 1]
    cut = f"{told[: limits.NAME]}…" if len(told) > limits.NAME else told
    return escape("".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in cut))


def _where(gateway: str, device: str, tag: str = "") -> str:
    """A client of its own is its own gateway."""
    names: Iterable[str] = (device,) if gateway == device else (gateway, device)
    told = " / ".join(map(_text, names))
    return f"{told} <small class=soft>{_text(tag)}</small>" if tag else told


def _severity(alarm: Alarm) -> str:
    """It becomes the name of a class: one of ours, whatever the table says."""
    return alarm.severity if alarm.severity in _SEVERITIES else "warning"


def _why(alarm: Alarm) -> str:
    if alarm.kind == "missing":
        return f"nothing for {span(alarm.threshold or 0)}"
    what = "changes by" if alarm.kind == "rate" else "is"
    return f"{what} {_number(alarm.value)}, limit {_number(alarm.threshold)}"


def _time(at: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return f"{at} ms"


def _count(number: int) -> str:
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.5g}"


def _delay(ms: float | None) -> str:
    if ms is None:
        return "–"
    if abs(ms) < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else span(ms / 1000)
