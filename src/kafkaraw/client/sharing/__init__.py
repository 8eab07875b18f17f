"""What `AsyncShareConsumer` is made of: membership, reading and acknowledging. Start at `reading`."""
