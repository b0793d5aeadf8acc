//! The tables of runs that the project answers to, and their simulations.

pub mod cloud;
pub mod cloud_experiments;
pub mod disk_experiments;
pub mod experiment;
pub mod figures;
pub mod load;
pub mod rows;
pub mod scene;
pub mod simulation;
pub mod steady;
pub mod steady_experiments;
pub mod tables;

#[cfg(test)]
mod tests;
