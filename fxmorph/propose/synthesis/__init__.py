"""Rules found by enumeration, without a model: every kept one is proved and was tried in eager beyond the proof."""
