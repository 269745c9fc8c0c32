"""Wrong rules made of right ones, and a search for values that show them to be wrong."""
