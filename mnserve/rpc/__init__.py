"""Answer the calls of the protocol over gRPC: inference, administration, health, and the check of messages."""
