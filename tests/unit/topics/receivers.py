"""Who gets messages, as the tests of topics have it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class Client:
    """The least that can receive."""

    client_id: str = "c"
    inflight_count: int = 0
