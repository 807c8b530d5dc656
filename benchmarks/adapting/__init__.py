"""Models of the papers' sizes with dictionaries that act, for the scripts that measure the price of adaptation."""
