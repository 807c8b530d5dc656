"""The commands of the command line: for each a settings class and ``run(settings) -> exit code``."""
