"""The resources below ``/api/v1/uplink``: how far the data platform has what goes up, and by which rules that goes."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.errors import ApiError, bad_request, existing
from iot_mqtt.admin.routes import Resource, get, post
from iot_mqtt.admin.schemas import Json, Schemas, body_of, schema_of
from iot_mqtt.admin.trial_sum import all_trials
from iot_mqtt.devices.letters import LettersInfo
from iot_mqtt.ports.status import UplinkInfo
from iot_mqtt.uplink.desk import MAX_TRIED, TRIED, ReloadInfo, RulesInfo, RulesRefused, TrialInfo, UplinkDesk

#: A hundred years.
MAX_MINUTES = 5e7
NO_UPLINK = "this node has no uplink; set uplink.kind"


class UplinkResources(Resource):
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

    @get("uplink", "What leaves towards the data platform.", "Uplink", spread="one")
    def _show(self, call: Call) -> UplinkInfo:
        return existing(self._info(), NO_UPLINK)

    @get("uplink/commands", "Commands that come from it.", "UplinkCommands", spread="one")
    def _show_commands(self, call: Call) -> LettersInfo:
        text = "no commands come from Kafka; set uplink.kind: kafka, and uplink.commands.topic"
        return existing(self._commands(), text)

    @get("uplink/rules", "Its rules, and what they did.", "UplinkRules", spread="one")
    def _rules(self, call: Call) -> RulesInfo:
        return existing(self._desk, NO_UPLINK).rules()

    @post(
        "uplink/test",
        "What rules would do with the last messages of each node's log; nothing is sent.",
        "UplinkTrial",
        "UplinkTest",
        combine=all_trials,
    )
    async def _test(self, call: Call) -> TrialInfo:
        desk = existing(self._desk, NO_UPLINK)
        with call.json() as fields:
            listed, minutes = fields.take("rules", list), fields.take("minutes", object)
            messages = fields.number("messages", MAX_TRIED)
        if messages == 0:
            raise bad_request(f"messages must be a number from 1 to {MAX_TRIED}")
        if listed is not None and not all(isinstance(one, dict) for one in listed):
            raise bad_request("rules must be a list of objects, as in uplink.rules")
        span = None if minutes is None else _minutes(minutes)
        try:
            return await desk.test(listed, messages or TRIED, span)
        except RulesRefused as error:
            raise _refused(error) from error

    @post(
        "uplink/reload",
        "Read uplink.rules from the configuration anew; rules with mistakes change nothing.",
        "UplinkReload",
        spread="one",
    )
    async def _reload(self, call: Call) -> ReloadInfo:
        try:
            return await existing(self._desk, NO_UPLINK).reload()
        except RulesRefused as error:
            raise _refused(error) from error

    def schemas(self) -> Schemas:
        test: Json = {
            "rules": {
                "type": ["array", "null"],
                "items": {"type": "object"},
                "description": "As in uplink.rules; null: those in force.",
            },
            "messages": {"type": "integer", "minimum": 1, "maximum": MAX_TRIED, "default": TRIED},
            "minutes": {
                "type": ["number", "null"],
                "exclusiveMinimum": 0,
                "description": "Only what came in these last minutes.",
            },
        }
        return {
            "Uplink": schema_of(UplinkInfo),
            "UplinkCommands": schema_of(LettersInfo),
            "UplinkRules": schema_of(RulesInfo),
            "UplinkReload": schema_of(ReloadInfo),
            "UplinkTrial": schema_of(TrialInfo),
            "UplinkTest": body_of(test, audited=("rules",)),
        }


def _minutes(value: object) -> float:
    # NaN is not above 0 either.
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise bad_request("minutes must be a number above 0")
    return float(min(value, MAX_MINUTES))


def _refused(error: RulesRefused) -> ApiError:
    return ApiError(HTTPStatus.CONFLICT, "rules_refused", str(error))
