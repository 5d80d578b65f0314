"""Findings of ``why`` as lines."""

from __future__ import annotations

from collections.abc import Iterator

from iot_mqtt.app.terminal import Json, plain, span


def said(findings: list[Json], now: float) -> Iterator[str]:
    """What is the matter, the likeliest first, and below each what would help."""
    for number, one in enumerate(findings, 1):
        since = "" if one["since"] is None else f", {span(max(0.0, now - one['since']))} ago"
        yield f"{number}. {plain(one['text'])} [{one['code']}, {plain(one['node'])}{since}]"
        if one["helps"]:
            yield f"   what would help: {plain(one['helps'])}"
