"""Commit log: tables rebuilt from the changes of a PostgreSQL database."""
