"""Which stage and unit of the compiler a finding comes from."""
