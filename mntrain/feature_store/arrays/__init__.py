"""Feature stores from features that others computed: npz, safetensors, parquet."""
