"""Where a rule holds, what it makes of a graph, and the recipe that says so."""
