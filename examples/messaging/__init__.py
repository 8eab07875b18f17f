"""Messaging: work orders with retries, several workers, and the results joined back."""
