//! Rust code as far as the rules read it: tokens, the paths that a file names, the arrows between files.

pub(crate) mod module_graph;
pub(crate) mod paths;
pub(crate) mod tokens;
