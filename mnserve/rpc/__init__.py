"""Answer the calls of the Open Inference Protocol."""
