"""From image files to labelled predictions: what ``mnserve predict`` runs."""
