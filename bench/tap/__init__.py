"""What a tap costs: confluent-kafka through `kafkaraw wire tap`, and directly. Start at `__main__`."""
