"""Cross-validate regressors over folds of tables."""
