"""The uplink's own part: rules, records, and the sinks that records go to. ``broker.uplink`` feeds them."""
