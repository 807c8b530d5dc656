"""Compare an export with the trained model, and judge the differences."""
