//! The user of this process, for sentences.

use nix::unistd::User;

/// By name, or by number without one.
pub fn own_user_name() -> String {
    let uid = nix::unistd::geteuid();
    match User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

/// The user of this process by name and number, such as `user www-data (33)`.
pub fn own_user() -> String {
    let uid = nix::unistd::geteuid();
    match User::from_uid(uid) {
        Ok(Some(user)) => format!("user {} ({uid})", user.name),
        _ => format!("user {uid}"),
    }
}
