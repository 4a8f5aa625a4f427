//! Feeds served and recorded: synthetic or from a file, at any pace, with faults on demand.
