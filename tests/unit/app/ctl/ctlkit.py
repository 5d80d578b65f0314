"""``ctl`` in front of an admin site in memory."""

from __future__ import annotations

import email.message
import io
from typing import Any
from urllib.error import HTTPError
from urllib.request import OpenerDirector, Request

from click.testing import CliRunner, Result

from iot_mqtt.admin.alarm_resources import AlarmResources
from iot_mqtt.app.ctl.cli import ctl
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.ctl.target import Target
from iot_mqtt.metrics.alarms import AlarmBook
from tests.unit.admin.adminkit import TOKEN, Browser, FakeView, make_browser


class MemoryOpener(OpenerDirector):
    """Carries requests of urllib to a site without a socket, and answers as urllib does."""

    def __init__(self, browser: Browser) -> None:
        super().__init__()
        self._browser = browser

    def open(self, fullurl: Any, data: Any = None, timeout: Any = None) -> Any:
        assert isinstance(fullurl, Request)
        headers = {name: value for name, value in fullurl.header_items() if name.lower() != "content-length"}
        path = fullurl.selector
        body = fullurl.data if isinstance(fullurl.data, bytes) else b""
        answer = self._browser.request(fullurl.get_method(), path, body, headers)
        if answer.status >= 400:
            raise HTTPError(fullurl.full_url, answer.status, "no", email.message.Message(), io.BytesIO(answer.body))
        return io.BytesIO(answer.body)


class Ctl:
    """Runs commands against the site that ``browser`` is in front of, or else one over a fake view."""

    def __init__(self, monkeypatch: Any, browser: Browser | None = None) -> None:
        self.view = FakeView()
        self.alarms = AlarmBook()
        self.at(browser or make_browser(self.view, further=[AlarmResources(self.alarms)]))
        monkeypatch.setattr(Target, "connect", lambda _target: self.node)

    def at(self, browser: Browser, on: str | None = None) -> None:
        """What follows is run against this one."""
        self.node = Node("http://node:18083", TOKEN, MemoryOpener(browser), on)

    def run(self, *arguments: str, input: bytes | None = None) -> Result:
        return CliRunner().invoke(ctl, arguments, input=input)

    def lines(self, *arguments: str) -> list[str]:
        """The output of a command that must succeed."""
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout.splitlines()
