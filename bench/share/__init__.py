"""What reading in share groups costs, with our client and with Java's."""
