"""Two brokers play the same random script; whatever their clients get differently has to be explained."""
