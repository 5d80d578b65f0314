"""Commands from Kafka: the consumer, on a thread of its own."""
