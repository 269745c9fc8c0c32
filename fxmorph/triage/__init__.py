"""From a case that differs to a finding that stands alone."""
