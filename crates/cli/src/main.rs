//! The windlass binary.

#[allow(dead_code, reason = "no command draws graphs yet")]
mod graph;

fn main() {}
