"""The kit as tests of a plugin: one test for each check.

::

    from iot_mqtt.sdk.kit import CodecTests
    from acme_meter.codec import AcmeMeter

    class TestAcmeMeter(CodecTests):
        codec = AcmeMeter
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from iot_mqtt.sdk.codec import Codec
from iot_mqtt.sdk.kit.checking import CHECKS, check_one, subject_of
from iot_mqtt.sdk.kit.options import QUICK, Options


class CodecTests:
    """Base for pytest; needs nothing of it, so that it can be imported where there is none."""

    codec: ClassVar[type[Codec]]
    #: What ``plugins.<name>.config`` would be, on top of that of the vectors.
    config: ClassVar[Mapping[str, object]] = {}
    options: ClassVar[Options] = QUICK

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """One test for each check, by its name."""
        if "check_name" in metafunc.fixturenames:
            metafunc.parametrize("check_name", list(CHECKS))

    def test_codec(self, check_name: str) -> None:
        """The codec stands one check of the kit."""
        score = check_one(check_name, subject_of(self.codec, self.config, self.options), self.options)
        assert score.verdict != "FAIL", f"\n{score}"
