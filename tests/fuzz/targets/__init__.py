"""All targets: what strangers reach, then gateways, then what parts say to each other, then what people write."""

from __future__ import annotations

from typing import Final

from tests.fuzz.target import Target
from tests.fuzz.targets import admin, foreign, frames, inside, mqtt, recorder, texts, web

TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for module in (mqtt, recorder, web, admin, frames, inside, texts, foreign)
    for target in module.TARGETS
}
