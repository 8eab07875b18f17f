"""What can go wrong in a Spark query apart from what the client says."""

from __future__ import annotations

from kafkaraw.errors import KafkaError


class DataLossError(KafkaError):
    """Records that a query should have read are no longer there."""

    @classmethod
    def explained(cls, what: str) -> DataLossError:
        """The error with the way out."""
        return cls(
            f"records are missing: {what}. Set the option failOnDataLoss to false to go on with what is there, "
            "or start the query with a new checkpoint"
        )
