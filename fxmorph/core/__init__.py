"""Without torch: records, settings, seeds, the store, clocks, worker processes, units."""
