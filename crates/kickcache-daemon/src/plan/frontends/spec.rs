//! The interface of all front ends' settings for a plan.

use std::path::Path;

/// The settings of a front end for a volume.
pub trait FrontendSpec {
    /// Whether clients can reach the volume by this front end.
    fn is_reachable(&self) -> bool;

    /// The unix sockets of this front end.
    fn unix_sockets(&self) -> Vec<&Path> {
        Vec::new()
    }

    /// The socket that no other volume may share; `None` if this front end has none.
    fn own_socket(&self) -> Option<&Path> {
        None
    }

    /// Where this front end serves the volume of a name, in words.
    fn announcements(&self, volume: &str) -> Vec<String>;

    /// Refuses impossible values.
    ///
    /// # Errors
    /// A sentence.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
