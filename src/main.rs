//! The `stockade` program: parses, wires, maps outcomes to exit codes. It holds no logic of its own.

fn main() {}
