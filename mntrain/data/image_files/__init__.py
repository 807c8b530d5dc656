"""Find labelled images in folders, tables and manifests, by the rules in ``docs/data.md``."""
