"""The resources below ``/api/v1/uplink``: how far the data platform has what goes up, and by which rules that goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.errors import ApiError, bad_request, not_found
from iot_mqtt.admin.routes import Route
from iot_mqtt.admin.shapes import Json
from iot_mqtt.devices.letters import LettersInfo
from iot_mqtt.ports.status import UplinkInfo
from iot_mqtt.uplink.desk import MAX_TRIED, TRIED, RulesRefused, UplinkDesk

#: A hundred years.
MAX_MINUTES = 5e7


class UplinkResources:
    """The uplink of one node; ``info`` and ``commands`` answer None where there is none."""

    def __init__(
        self,
        info: Callable[[], UplinkInfo | None],
        commands: Callable[[], LettersInfo | None] = lambda: None,
        desk: UplinkDesk | None = None,
    ) -> None:
        self._info = info
        self._commands = commands
        self._desk = desk

    @property
    def routes(self) -> tuple[Route, ...]:
        """Its part of the table."""
        return (
            Route("GET", "uplink", "What leaves towards the data platform.", self._show, answer="Uplink"),
            Route(
                "GET", "uplink/commands", "Commands that come from it.", self._show_commands, answer="UplinkCommands"
            ),
            Route("GET", "uplink/rules", "Its rules, and what they did.", self._rules, answer="UplinkRules"),
            Route(
                "POST",
                "uplink/test",
                "What rules would do with the last messages of the log; nothing is sent.",
                self._test,
                answer="UplinkTrial",
                body="UplinkTest",
            ),
            Route(
                "POST",
                "uplink/reload",
                "Read uplink.rules from the configuration anew; rules with mistakes change nothing.",
                self._reload,
                answer="UplinkReload",
            ),
        )

    def _rules(self, call: Call) -> Json:
        return asdict(self._rule_desk().rules())

    async def _test(self, call: Call) -> Json:
        desk, fields = self._rule_desk(), call.json()
        listed, minutes = fields.take("rules", list), fields.take("minutes", object)
        messages = fields.number("messages", MAX_TRIED)
        fields.finish()
        if listed is not None and not all(isinstance(one, dict) for one in listed):
            raise bad_request("rules must be a list of objects, as in uplink.rules")
        span = None if minutes is None else _minutes(minutes)
        try:
            return asdict(await desk.test(listed, TRIED if messages is None else max(1, messages), span))
        except RulesRefused as error:
            raise _refused(error) from error

    async def _reload(self, call: Call) -> Json:
        try:
            return asdict(await self._rule_desk().reload())
        except RulesRefused as error:
            raise _refused(error) from error

    def _rule_desk(self) -> UplinkDesk:
        if self._desk is None:
            raise not_found("this node has no uplink; set uplink.kind")
        return self._desk

    def _show(self, call: Call) -> Json:
        info = self._info()
        if info is None:
            raise not_found("this node has no uplink; set uplink.kind")
        return asdict(info)

    def _show_commands(self, call: Call) -> Json:
        info = self._commands()
        if info is None:
            raise not_found("no commands come from Kafka; set uplink.kind: kafka, and uplink.commands.topic")
        return asdict(info)


def _minutes(value: object) -> float:
    # NaN is not above 0 either.
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise bad_request("minutes must be a number above 0")
    return float(min(value, MAX_MINUTES))


def _refused(error: RulesRefused) -> ApiError:
    return ApiError(HTTPStatus.CONFLICT, "rules_refused", str(error))
