"""Alpha Net: few-class classifiers composed with those of their nearest classes (seed paper, ICLR 2021 submission)."""
