"""Users of the grid, changed over the admin port of a node."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from iot_mqtt.admin.token import read_token
from systemkit.process import BrokerProcess


def call(
    broker: BrokerProcess, method: str, path: str, body: object = None, *, token: str | None = None
) -> tuple[int, Any]:
    """Status and answer of the API; without a token by that of the data directory."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{broker.ports['admin']}/api/v1/{path}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {token or read_token(str(broker.data_dir))}"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=50) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def put_user(broker: BrokerProcess, name: str, *, new: bool = False, **fields: object) -> None:
    """Add or change a user; it must work."""
    status, answer = call(
        broker, "POST", "users" if new else f"users/{name}", {**fields, **({"name": name} if new else {})}
    )
    assert status == 200, answer


def delete_user(broker: BrokerProcess, name: str) -> None:
    """It must be there."""
    assert call(broker, "DELETE", f"users/{name}")[0] == 204
