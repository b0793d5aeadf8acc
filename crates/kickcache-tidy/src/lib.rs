//! The house rules of the workspace, which are tests: `tests/tidy` and `tests/code_map.rs`.
