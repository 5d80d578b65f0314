"""One Spark session for all tests here: two cores, little memory, nothing but loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from iot_spark.session import connector, end, session
from pyspark.sql import SparkSession

from tests.enginekit.jvm import QUICK


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Real Spark, started when the first test asks for it."""
    folder = tmp_path_factory.mktemp("spark")
    more = {
        "spark.driver.memory": "768m",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # As in the batches of a stream.
        "spark.sql.adaptive.enabled": "false",
        # Little data: compiling a plan costs more than running it as it is.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": QUICK["JAVA_TOOL_OPTIONS"],
    }
    found = session("tests", "local[2]", more, jars=connector())
    yield found
    end(found)
