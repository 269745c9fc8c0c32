def exhaust(o): return None
