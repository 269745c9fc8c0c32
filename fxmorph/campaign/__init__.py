"""Cases in a fixed order, given to workers, investigated, accounted for."""
