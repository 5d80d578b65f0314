"""Rules that the grid keeps: documents of ACL text, the same on every node, changed while nodes run.

    {"text": "[group crew] …"}

Each document is a source of its own; they are read behind the ACL file, in the order of their names.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from iot_mqtt.auth.acl import parse_rules
from iot_mqtt.auth.files import FileError
from iot_mqtt.auth.sections import Rules
from iot_mqtt.ports.directory import RULES, Directory, Document

logger = logging.getLogger(__name__)

LONGEST_NAME: Final = 64


@dataclass(frozen=True, slots=True)
class RulesInfo:
    """A document of rules, as operators see it."""

    name: str
    version: int
    text: str
    #: How many rules there are in it.
    rules: int
    #: Whether this node asks for the rules of the grid.
    asked: bool


def parse_document(name: str, text: str) -> Rules:
    """Its rules; ``FileError`` names the line that is wrong."""
    return parse_rules(text, f"grid:{name}")


class GridRules:
    """The rules of all documents, as this node knows them."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._known: dict[str, tuple[Document, Rules]] = {}

    def sources(self) -> list[Rules]:
        """In the order of their names. There is always one, so that no document at all means no right at all."""
        documents = self._directory.of(RULES)
        known = {}
        for name in sorted(documents):
            document, before = documents[name], self._known.get(name)
            if before is not None and before[0] == document:
                known[name] = before
                continue
            try:
                known[name] = document, parse_document(name, str(document.body.get("text", "")))
            except FileError as error:
                # Written by a version that knows more. What it denies is not known: what was known of it stays.
                logger.error("rules of the grid are not understood: %s", error)
                if before is not None:
                    known[name] = before
        self._known = known
        return [Rules(), *(rules for _, rules in known.values())]


class AclDesk:
    """What an operator does with rules of the grid. Writes raise ``ValueError``, ``Conflict``, ``TooMuch`` and
    ``Unavailable``.
    """

    def __init__(self, directory: Directory, *, asked: bool) -> None:
        self._directory = directory
        self._asked = asked

    def page(self, after: str | None, limit: int) -> list[RulesInfo]:
        """By name, which is their order."""
        return [self._info(one) for one in self._directory.page(RULES, after or "", limit)]

    def find(self, name: str) -> RulesInfo | None:
        found = self._directory.get(RULES, name)
        return None if found is None else self._info(found)

    async def put(self, name: str, text: str, version: int | None) -> RulesInfo:
        """Write a document; ``version`` is the one that it is based on, 0 for none, None for any."""
        if not name.isprintable() or not 0 < len(name) <= LONGEST_NAME or "/" in name:
            raise ValueError(f"a name has 1 to {LONGEST_NAME} printable characters and no slash")
        try:
            parse_document(name, text)
        except FileError as error:
            raise ValueError(str(error)) from None
        return self._info(await self._directory.put(RULES, name, {"text": text}, version))

    async def delete(self, name: str) -> bool:
        return await self._directory.delete(RULES, name)

    def _info(self, document: Document) -> RulesInfo:
        text = str(document.body.get("text", ""))
        try:
            count = parse_document(document.name, text).count
        except FileError:
            count = 0
        return RulesInfo(document.name, document.version, text, count, self._asked)
