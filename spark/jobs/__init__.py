"""Programs for `spark-submit`; thin, so what they do can be tested without them."""
