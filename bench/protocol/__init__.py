"""What encoding and decoding messages costs, with our codec and with others."""
