"""Neural similarity: convolutions whose inner product is a learned bilinear similarity (Liu et al., NeurIPS 2019)."""
