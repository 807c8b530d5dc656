"""Decode inference requests to arrays and encode arrays as responses, over messages or shared memory."""
