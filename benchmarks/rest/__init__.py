"""Throughput of HTTP beside gRPC, and beside MLServer's HTTP."""
