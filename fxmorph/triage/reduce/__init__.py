"""Findings made smaller while they stay the same finding."""
