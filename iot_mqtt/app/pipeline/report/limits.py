"""How much of the tables a page shows. What is beyond is counted, and said on the page."""

from __future__ import annotations

#: Of all tables together; beyond it, `compact` has to make fewer of them.
FILES = 200_000
DEVICES = 500
CHARTS = 300
#: Stretches of time that one chart is made of, and all charts together.
BUCKETS = 500
FEWEST_BUCKETS = 60
ALL_BUCKETS = 60_000
ALARMS = 1000
REASONS = 50
#: Characters of a name, a text or a dead letter.
NAME = 200
#: What DuckDB may keep in memory; beyond that it writes to a temporary directory.
MEMORY = "512MB"
THREADS = 2
