//! Rust code as far as the rules read it.

pub(crate) mod module_graph;
pub(crate) mod paths;
pub(crate) mod tokens;
