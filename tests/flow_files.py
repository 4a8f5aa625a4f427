"""A flow of two types, one that trades and one that rests."""

TWO_TYPES = """
[[flow]]
instruments = ["BTC_USDC"]
maker_levels = 4

[[flow.type]]
name = "take"
base_per_s = 1.0
order = "leave_touch"

[[flow.type]]
name = "rest"
base_per_s = 2.0
order = "behind"

[[flow.kernel]]
jump_per_s = [[2.0, 0.0], [1.0, 1.5]]
decay_per_s = 5.0
"""
