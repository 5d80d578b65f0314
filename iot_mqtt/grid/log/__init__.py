"""The log on any grid: ``ports.log.Log`` over ``ports.grid.Grid``.

    append ─▶ writing ─(the store's batch)─▶ pages, turn summaries ─▶ recent ─▶ index of full blocks
    read   ─▶ selection (which streams) ─▶ recent or index (which turns) ─▶ pages
    follow ─▶ ring (what turns of another writer brought) ─▶ recent, and so on as above

``keys`` and ``records`` say what is kept. A page and everything else of a turn is one part of one batch, the
turn's summaries last; a turn without a summary was never acknowledged and does not exist.
"""

from __future__ import annotations

from iot_mqtt.grid.log.caretaking import drop_over
from iot_mqtt.grid.log.following import FollowedLog
from iot_mqtt.grid.log.grid_log import GridLog
from iot_mqtt.grid.log.pages import PageCache
from iot_mqtt.grid.log.settings import LogSettings, TopicRetention

__all__ = ["FollowedLog", "GridLog", "LogSettings", "PageCache", "TopicRetention", "drop_over"]
