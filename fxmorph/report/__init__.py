"""What people and programs read of a run: one file per form of report."""
