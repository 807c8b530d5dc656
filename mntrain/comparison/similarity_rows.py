"""Rows of Neural Similarity Learning (Liu et al., NeurIPS 2019): settings of convolutions, and so no family's own."""

from mntrain.models.family import OWN_ROWS, FamilyVariant


def _row(name: str, table: int, mode: str = "none", *, width: float | None = None, **settings: str) -> FamilyVariant:
    """Make a vanilla network with dot products in its head; the recipe chooses the backbone."""
    fields = {"mode": mode, **settings}
    words = [word for field, value in fields.items() for word in (f"--backbone.similarity.{field}", value)]
    if width is not None:
        words += ["--backbone.width", str(width)]
    return FamilyVariant(name=name, table=table, words=("--vanilla.head", "dot", *words))


SIMILARITY_ROWS = (
    # Table 1: predictors. The paper's dynamic network has that of the sphere.
    _row("cnn", 1),
    _row("dynamic-dns-plain", 1, "dynamic", predictor="plain"),
    # Table 2: kernel shape and similarity.
    _row("static-dns-joint", 2, "static", kernel_shape="true"),
    _row("dynamic-dns-joint", 2, "dynamic", kernel_shape="true"),
    # Table 3: one predictor for all layers.
    _row("dynamic-dns-shared", 3, "dynamic", shared="true"),
    # Table 4. CNN++ is CNN-9 with more parameters than any row has, made wider only.
    _row("cnn++", 4, width=1.54),
    _row("static-dns", 4, "static"),
    _row("static-uns", 4, "static", kind="unconstrained"),
    _row("dynamic-dns", 4, "dynamic"),
    _row("dynamic-uns", 4, "dynamic", kind="unconstrained"),
    # Table 5: CNN++ for CNN-10.
    _row("cnn10++", 5, width=1.042),
    # Table 8: self-attention behind poolings.
    _row("attention", 8, across_map="attention"),
    _row("sphere", 8, "sphere", normalise="both"),
    _row("sphere-attention", 8, "sphere", normalise="both", across_map="attention"),
    # CNN-9 as wide as takes the parameters, the multiplications or the time of dynamic-dns.
    _row("cnn-equal-parameters", OWN_ROWS, width=1.17),
    _row("cnn-equal-operations", OWN_ROWS, width=1.53),
    _row("cnn-equal-time", OWN_ROWS, width=2.0),
)
"""Rows of tables 1 to 5 and 8 by the table where each appears first, and rows of equal cost; of the family vanilla."""
