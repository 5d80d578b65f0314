"""What a JVM is told that starts, does a little and ends: half of its time would go to the costly compiler."""

from __future__ import annotations

from typing import Final

#: For the environment of whatever starts Java, such as Spark's driver.
QUICK: Final = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"}
