"""``iot-mqtt pipeline report``: one HTML page of what is in the tables, made without Spark.

``tables`` asks DuckDB, ``series`` says what to draw, ``page`` writes HTML; ``page.css`` and ``page.js`` go into it.
"""
