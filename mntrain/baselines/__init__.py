"""Methods of scikit-learn that a network is measured against."""
