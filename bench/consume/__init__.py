"""What reading costs, with our client and with others."""
