//! The user of this process, for sentences.

use nix::unistd::{User, geteuid};

fn account_name() -> Option<String> {
    User::from_uid(geteuid()).ok().flatten().map(|user| user.name)
}

/// The user of this process by name, or by number if the account has no name.
pub fn own_user_name() -> String {
    account_name().unwrap_or_else(|| geteuid().to_string())
}

/// The user of this process by name and number, such as `user www-data (33)`, or by number alone.
pub fn own_user() -> String {
    let uid = geteuid();
    account_name().map_or_else(|| format!("user {uid}"), |name| format!("user {name} ({uid})"))
}
