"""What would become of clients, as a test says."""

from __future__ import annotations

from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal


class Fates:
    """What the broker would say; of most clients nothing."""

    def __init__(self) -> None:
        self.refused: dict[str, Denied] = {}
        self.elsewhere: dict[str, str] = {}

    async def of(self, attempt: ConnectAttempt, verdict: Principal | Denied) -> Principal | Denied:
        return self.refused.get(attempt.client_id, verdict)

    def open_question(self, client_id: str) -> str:
        return self.elsewhere.get(client_id, "")
