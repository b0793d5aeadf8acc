//! The published runs that the project answers to, and how each is simulated.

pub mod cloud;
pub mod figures;
pub mod load;
pub mod rows;
pub mod scene;
pub mod steady;

#[cfg(test)]
mod tests;
