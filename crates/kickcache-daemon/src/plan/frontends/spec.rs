//! The interface of all front ends' settings for a plan.

use std::path::Path;

/// The settings of a front end for a volume.
pub trait FrontendSpec {
    /// Whether clients can reach the volume by it.
    fn is_reachable(&self) -> bool;

    /// Its unix sockets.
    fn unix_sockets(&self) -> Vec<&Path> {
        Vec::new()
    }

    /// The socket that no other volume may have, if it has one.
    fn own_socket(&self) -> Option<&Path> {
        None
    }

    /// Where it serves the volume of a name, in words.
    fn announcements(&self, volume: &str) -> Vec<String>;

    /// Refuses impossible values.
    ///
    /// # Errors
    /// A sentence.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
