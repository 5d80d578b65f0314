"""``uplink.kind: kafka``: records into Kafka, in order for each key, at least once.

::

    reactor    sink ──(batches)──▶ bridge ─▶ thread ─▶ outlet ─▶ producer ─▶ Kafka
                ▲                                        │ topics: are they there, what do they take
                └──(how many batches are safe, trouble)──┤ watch: what is in the way, in words
                                                         └ dead: what Kafka will never take

The log keeps what is not safe, so the outlet never gives up by time: what is under way when Kafka goes away is sent
again by the library under the sequence numbers of before, and is there once. Only what the library cannot mend (it
calls it fatal) makes the sink fail; it begins at the place again then, and some records may be there twice, with the
same id.
"""
