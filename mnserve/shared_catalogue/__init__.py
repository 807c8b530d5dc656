"""What the processes of a server share about its models: their description, counters, and what runs."""
