"""Reading the ACL file: its forms, and errors that name the line."""

from __future__ import annotations

import pytest

from iot_mqtt.auth.acl import decide, parse_rules
from iot_mqtt.auth.files import FileError
from iot_mqtt.ports.access import Action, Principal

ANN = Principal("c1", "ann")


def test_comments_blank_lines_and_windows_line_ends_are_fine() -> None:
    """What editors leave behind does not matter."""
    rules = parse_rules("# who\r\n\r\n [ user  ann ]\r\n  allow\tpublish  a b/c \r\n", "acl")
    assert decide(rules.of(ANN), ANN, Action.PUBLISH, "a b/c")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("allow all a", 1, "below"),
        ("[all]\nallow all", 2, "a rule is"),
        ("[all]\n\npermit all a", 3, "a rule is"),
        ("[all]\nallow connect a", 2, "a rule is"),
        ("[everyone]", 1, "[everyone]"),
        ("[user]", 1, "[user]"),
        ("[all of them]", 1, "[all of them]"),
        ("[user ann", 1, "']'"),
        ("[all]\nallow all a/#/b", 2, "'#'"),
        ("[all]\nallow all a+", 2, "'+'"),
        ("[all]\nallow all a/# # comment", 2, "'#'"),
        ("[all]\nallow all dev-%c/x", 2, "whole level"),
        ("[all]\nallow all $share/g/a", 2, "leave $share"),
        ("[all]\nallow replay $replay/1h/a", 2, "leave $replay"),
        ("[all]\nallow client", 2, "client|gateway PATTERN"),
        ("[all]\nallow client %c", 2, "%c says nothing"),
        ("[group]", 1, "[group NAME]"),
        ("[client]", 1, "[client PATTERN]"),
        ("[client %c]", 1, "%c says nothing"),
        ("[address]", 1, "[address NETWORK]"),
        ("[address here]", 1, "here"),
        ("[address 10.7.1.2/16]", 1, "host bits"),
        ("[all]\nallow all noretain a", 2, "go with publish"),
        ("[all]\nallow command qos<=1 a", 2, "go with publish"),
        ("[all]\nallow publish retain noretain a", 2, "no message"),
        ("[all]\nallow publish qos<=0 qos>=1 a", 2, "no message"),
        ("[all]\nallow publish qos<=3 a/#/b", 2, "'#'"),
        ("[all]\nallow command a/#/b", 2, "'#'"),
        ("[all]\nallow shadow gw+", 2, "'+'"),
    ],
)
def test_an_error_names_its_line(text: str, line: int, words: str) -> None:
    """Whoever edits the file is told where and what."""
    with pytest.raises(FileError) as caught:
        parse_rules(text, "/etc/acl")
    assert caught.value.line == line
    assert str(caught.value).startswith(f"/etc/acl:{line}: ")
    assert words in caught.value.detail
