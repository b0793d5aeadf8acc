//! The interface of all front ends' settings for a plan.

use std::path::Path;

/// The settings of a front end for a volume.
pub trait FrontendSpec {
    fn is_reachable(&self) -> bool;

    fn unix_sockets(&self) -> Vec<&Path> {
        Vec::new()
    }

    /// The socket that no other volume may share.
    fn own_socket(&self) -> Option<&Path> {
        None
    }

    fn announcements(&self, volume: &str) -> Vec<String>;

    /// Refuses impossible values.
    ///
    /// # Errors
    /// A sentence.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
