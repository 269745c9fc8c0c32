"""Small mends of publicly known defects of torch, in memory, one file a defect."""
