"""Make ``cpu.onnx``, an optional file that CPUs run faster."""
