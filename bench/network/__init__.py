"""`make bench-network`: what the way to a broker costs, against bare sockets; start at `__main__`."""
