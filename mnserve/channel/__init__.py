"""Channel between a front end and an engine process: packed records over a socket, tensors in shared memory."""
