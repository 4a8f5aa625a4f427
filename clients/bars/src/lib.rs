//! Bars and indicators of every symbol of a shard.
