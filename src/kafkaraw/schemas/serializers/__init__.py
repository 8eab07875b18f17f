"""Serializers and deserializers for Avro, JSON Schema and Protobuf. Start at `common`, then at a language's module."""
