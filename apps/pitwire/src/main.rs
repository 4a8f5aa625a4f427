//! The pitwire binary.
fn main() {}
